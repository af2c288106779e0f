"""Which addresses may be connected to: `--network` and its related options, on the command line and in Python."""

import asyncio
import json
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

import headgate as package
from support.results import rows
from support.run import headgate, stats

BLOCKED = "blocked_by_network_policy"
METADATA = "http://169.254.169.254/latest/meta-data/"


def untrusted_urls(directory: Path, *urls: str) -> Path:
    """Returns a list of URLs that an untrusted source could supply."""
    path = directory / "untrusted.txt"
    path.write_text("".join(f"{url}\n" for url in urls))
    return path


def test_a_list_reaches_nothing_that_is_not_public_and_the_summary_names_the_option(
    server: str, tmp_path: Path
) -> None:
    out, before = tmp_path / "out", stats(server)["requests"]
    urls = untrusted_urls(tmp_path, f"{server}/1", METADATA)
    done = headgate("fetch", urls, "-o", out, "--network", "public", "--obey-robots", check=3)
    assert [BLOCKED] * 2 == [row["error"] for row in rows(out)]
    assert ["127.0.0.1", "169.254.169.254"] == [row["error_detail"] for row in rows(out)]
    assert [0, 0] == [row["attempts"] for row in rows(out)]
    assert "; see --allow-net" in done.stderr
    assert before == stats(server)["requests"]


def test_by_default_a_list_reaches_this_machine_and_no_metadata_service(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", untrusted_urls(tmp_path, f"{server}/1", METADATA), "-o", out, check=3)
    assert [(200, None), (None, BLOCKED)] == [(row["status"], row["error"]) for row in rows(out)]


def test_a_plan_shows_what_is_in_force(server: str, tmp_path: Path) -> None:
    urls = untrusted_urls(tmp_path, f"{server}/1")
    flags = ["--network", "public", "--allow-net", "127.0.0.1", "--deny-net", "::1", "--allow-port", "443"]
    text = headgate("plan", urls, *flags, check=0).stdout
    policy = "public addresses only; --allow-net 127.0.0.1/32; --deny-net ::1/128; --allow-port 443"
    assert f"  network  {policy}\n" in text
    plan = json.loads(headgate("plan", urls, *flags, "--as-json", check=0).stdout)
    assert {"network": "public", "allow_net": ["127.0.0.1/32"], "deny_net": ["::1/128"], "allow_port": [443]} == (
        plan["network"]
    )


def test_a_plan_says_that_it_cannot_look_behind_a_proxy(server: str, tmp_path: Path) -> None:
    urls = untrusted_urls(tmp_path, f"{server}/1")
    proxy = ["--proxy", "http://127.0.0.1:1"]
    assert "note: a proxy looks up hostnames itself" in headgate("plan", urls, *proxy, check=0).stdout
    done = headgate("plan", urls, "--network", "public", *proxy, check=2)
    assert "--network can't be public behind a proxy" in done.errors()[0]
    assert "--proxy-any-address" in done.errors()[0]
    headgate("plan", urls, "--network", "public", "--proxy-any-address", *proxy, check=0)


def test_mistakes_of_several_options_together_are_named_at_once(tmp_path: Path) -> None:
    urls = untrusted_urls(tmp_path, "http://127.0.0.1:1/")
    public = ("--network", "public", "--proxy", "http://127.0.0.1:1")
    done = headgate("plan", urls, *public, "--extract", "a=$.a", "--no-decode", "--require", "a", check=2)
    errors = done.errors()
    assert errors[0] == "--extract can't have values of bodies with --no-decode, as bodies are not decoded"
    assert errors[1].startswith("--network can't be public behind a proxy")
    assert len(errors) == 2


def test_a_retry_keeps_the_policy_of_its_job_and_can_allow_more(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    urls = untrusted_urls(tmp_path, f"{server}/1")
    headgate("fetch", urls, "-o", out, "--network", "public", check=3)
    refused = headgate("fetch", urls, "-o", out, check=2)
    assert "--network was public, now it is any" in refused.errors()[0]
    headgate("retry", out, check=3)
    assert [BLOCKED] == [row["error"] for row in rows(out)]
    headgate("retry", out, "--only", BLOCKED, "--allow-net", "127.0.0.0/8", check=0)
    assert [200] == [row["status"] for row in rows(out)]


def test_a_client_has_a_class_for_it(server: str) -> None:
    port = urlsplit(server).port or 0
    with (
        package.Client(network="public") as client,
        pytest.raises(package.BlockedByNetworkPolicy, match=r"not public: loopback, 127\.0\.0\.0/8"),
    ):
        client.get(f"{server}/hello")
    with package.Client(network="public", allow_net="127.0.0.0/8", allow_port=port) as client:
        assert client.get(f"{server}/hello").status_code == 200
    with package.Client(deny_net=["127.0.0.0/8"]) as client, pytest.raises(PermissionError):
        client.get(f"{server}/hello")
    with package.Client(base_url=server, allow_port=[1]) as client, pytest.raises(package.BlockedByNetworkPolicy):
        client.get("/hello")
    with pytest.raises(package.UsageError, match="network can't be public behind a proxy"):
        package.Client(network="public", proxy="http://127.0.0.1:1")


def test_an_async_client_has_it_too(server: str) -> None:
    async def ask() -> None:
        async with package.AsyncClient(network="public") as client:
            await client.get(f"{server}/hello")

    with pytest.raises(package.BlockedByNetworkPolicy):
        asyncio.run(ask())


def test_tables_have_it_too(server: str) -> None:
    found = pa.table(package.fetch_table(pa.table({"url": [f"{server}/hello"]}), network="public"))
    assert [BLOCKED] == found["error"].to_pylist()
