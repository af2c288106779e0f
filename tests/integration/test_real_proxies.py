"""Well-known proxies, and servers behind TLS."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.authority import Authority
from support.programs import program
from support.real_proxies import haproxy, microsocks, tinyproxy
from support.real_servers import nginx
from support.run import headgate, serving

CREDENTIALS = "bWU6c2VjcmV0"
"""`me:secret` in base64."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def fetched(url: str, *options: str | Path) -> list[dict[str, Any]]:
    return headgate("fetch", url, "-o", "-", "--retries", "0", *options).rows()


def assert_echoed(rows: list[dict[str, Any]], count: int, *, https: bool) -> None:
    """Fails unless all rows have the body of `/echo`, without the credentials of a proxy."""
    assert count == len(rows)
    for row in rows:
        assert (None, 200) == (row["error"], row["status"]), row
        echo = json.loads(row["body"])
        assert not [name for name, _ in echo["headers"] if name.lower() == "proxy-authorization"], echo
        assert CREDENTIALS not in row["body"]
        assert https == row["url"].startswith("https")


def target(server: str) -> str:
    return server.removeprefix("http://")


@pytest.mark.parametrize(("auth", "user"), [((), ""), (("BasicAuth me secret",), "me:secret@")])
def test_hosts_are_reached_through_tinyproxy_which_alone_sees_its_credentials(
    auth: tuple[str, ...], user: str, server: str, authority: Authority, tmp_path: Path
) -> None:
    with (
        tinyproxy(tmp_path, *auth) as proxy,
        haproxy(tmp_path, authority.certify("localhost"), target(server), mode="http") as port,
    ):
        options = ("--proxy", f"http://{user}{proxy}", "--cacert", authority.file)
        assert_echoed(fetched(f"{server}/echo?[1-50]", *options), 50, https=False)
        assert_echoed(fetched(f"https://localhost:{port}/echo?[1-50]", *options), 50, https=True)


def test_a_refusal_of_tinyproxy_is_a_failure_of_the_proxy_and_not_of_the_host(server: str, tmp_path: Path) -> None:
    with tinyproxy(tmp_path, "BasicAuth me secret", "ConnectPort 443") as proxy:
        for message, status, url, user in [
            ("the proxy requires credentials (407)", 407, f"{server}/echo", ""),
            ("the proxy requires credentials (407)", None, "https://localhost:443/", ""),
            ("the proxy does not allow connections to this host (403)", None, "https://localhost:444/", "me:secret@"),
        ]:
            (row,) = fetched(url, "--proxy", f"http://{user}{proxy}")
            assert ("proxy", message, status) == (row["error"], row["error_message"], row["status"])
        (row,) = fetched("https://localhost:443/", "--proxy", f"http://me:wrong@{proxy}")
        # tinyproxy 1.11 sends 401, which without a tunnel would count as that of the host.
        assert row["error_message"].startswith("the proxy does not accept these credentials (40"), row


@pytest.mark.parametrize(("auth", "user"), [((), ""), (("-u", "me", "-P", "secret"), "me:secret@")])
def test_hosts_are_reached_through_microsocks(
    auth: tuple[str, ...], user: str, server: str, authority: Authority, tmp_path: Path
) -> None:
    with (
        microsocks(tmp_path, *auth) as proxy,
        haproxy(tmp_path, authority.certify("localhost"), target(server), mode="http") as port,
    ):
        for scheme in ("socks5h", "socks5"):
            options = ("--proxy", f"{scheme}://{user}{proxy}", "--cacert", authority.file)
            assert_echoed(fetched(f"{server}/echo?[1-50]", *options), 50, https=False)
            assert_echoed(fetched(f"https://localhost:{port}/echo?[1-50]", *options), 50, https=True)


def test_a_refusal_of_microsocks_is_a_failure_of_the_proxy(server: str, tmp_path: Path) -> None:
    with microsocks(tmp_path, "-u", "me", "-P", "secret") as proxy:
        for message, url, user in [
            ("the proxy accepts none of headgate's authentication methods", server, ""),
            ("the proxy does not accept these credentials", server, "me:wrong@"),
            ("the host refused the proxy's connection", "http://127.0.0.1:1", "me:secret@"),
        ]:
            (row,) = fetched(f"{url}/", "--proxy", f"socks5h://{user}{proxy}")
            assert ("proxy", message, None) == (row["error"], row["error_message"], row["status"])


def test_a_proxy_is_spoken_to_over_tls_and_so_are_hosts_behind_it(
    server: str, authority: Authority, tmp_path: Path
) -> None:
    certificate = authority.certify("localhost")
    with (
        tinyproxy(tmp_path, "BasicAuth me secret") as proxy,
        haproxy(tmp_path, certificate, proxy, mode="tcp") as of_proxy,
        haproxy(tmp_path, certificate, target(server), mode="http") as of_host,
    ):
        proxy_url = f"https://me:secret@localhost:{of_proxy}"
        options = ("--proxy", proxy_url, "--cacert", authority.file)
        assert_echoed(fetched(f"{server}/echo?[1-20]", *options), 20, https=False)
        assert_echoed(fetched(f"https://localhost:{of_host}/echo?[1-20]", *options), 20, https=True)
        (row,) = fetched(f"{server}/echo", "--proxy", proxy_url)
        assert row["error"] == "proxy"
        assert row["error_message"].startswith("the proxy can't be reached: the server's certificate is not trusted")


def test_http2_is_spoken_through_a_tunnel(tmp_path: Path) -> None:
    with nginx(tmp_path) as host, tinyproxy(tmp_path) as proxy, microsocks(tmp_path) as socks:
        for url in (f"http://{proxy}", f"socks5h://{socks}"):
            rows = fetched(f"{host.secure}/[1-20]", "--cacert", host.cacert, "--proxy", url)
            assert [(200, "HTTP/2")] * 20 == [(row["status"], row["http_version"]) for row in rows], rows
            rows = fetched(f"{host.prior}/[1-20]", "--http2-prior-knowledge", "--proxy", url)
            assert [(200, "HTTP/2")] * 20 == [(row["status"], row["http_version"]) for row in rows], rows


def test_the_environment_names_proxies_with_proxy_env(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tinyproxy(tmp_path) as proxy:
        monkeypatch.setenv("http_proxy", f"http://{proxy}")
        monkeypatch.setenv("NO_PROXY", "localhost")
        port = server.rpartition(":")[2]

        def fetched(host: str, *options: str) -> tuple[str, str]:
            done = headgate("fetch", f"http://{host}:{port}/echo", "-o", "-", *options, check=0)
            (row,) = done.rows()
            return row["remote_addr"], done.stderr

        for expected, host in [(proxy, "127.0.0.1"), (f"127.0.0.1:{port}", "localhost")]:
            address, stderr = fetched(host, "--proxy", "env")
            assert expected == address
            assert "http_proxy" not in stderr
        address, stderr = fetched("127.0.0.1")
        assert address == f"127.0.0.1:{port}"
        assert "http_proxy is set but ignored: to connect through it, use --proxy env" in stderr


def test_the_credentials_of_a_proxy_are_stored_nowhere(server: str, tmp_path: Path) -> None:
    secret = tmp_path / "proxies"
    with tinyproxy(tmp_path, "BasicAuth me secret") as proxy:
        secret.write_text(f"http://me:secret@{proxy}\nhttp://me:secret@127.0.0.1:1\n")
        out = tmp_path / "out"
        done = headgate(
            *(
                "fetch",
                f"{server}/echo?[1-20]",
                "-o",
                out,
                "--proxy",
                f"@{secret}",
                "--retries",
                "0",
                "--format",
                "ndjson",
            )
        )
        shown = headgate("plan", f"{server}/echo", "--proxy", f"@{secret}", "--curl", check=0).stdout
    assert re.search(r"failed +10\n +proxy +10 ", done.stderr), done.stderr
    texts = [done.stdout, done.stderr, shown, *(path.read_text("latin-1") for path in out.rglob("*") if path.is_file())]
    assert not [text for text in texts if "me:secret" in text or CREDENTIALS in text]


def test_curl_goes_through_the_same_proxy(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program("curl", "curl")
    with tinyproxy(tmp_path, "BasicAuth me secret") as proxy:
        url = f"http://me:secret@{proxy}"
        script = headgate("plan", f"{server}/echo", "--proxy", url, "--curl", check=0).stdout
        monkeypatch.setenv("SECRET_PROXY", url)
        printed = subprocess.run(["/bin/sh"], input=script.encode(), capture_output=True, check=True).stdout
        (row,) = fetched(f"{server}/echo", "--proxy", url)
    assert json.loads(row["body"])["path"] == json.loads(printed)["path"]


def test_nginx_is_shown_the_certificate_that_it_requires(authority: Authority, tmp_path: Path) -> None:
    client = authority.certify("client.example")
    with nginx(tmp_path, f"ssl_client_certificate {authority.file}; ssl_verify_client on;") as server:
        options = ("--cacert", server.cacert, "--http1.1")
        rows = fetched(f"{server.secure}/[1-20]", *options, "--cert", client)
        assert [200] * 20 == [row["status"] for row in rows]
        (row,) = fetched(f"{server.secure}/", *options)
        assert row["status"] == 400
        assert "No required SSL certificate was sent" in row["body"]


def test_a_server_behind_haproxy_is_reached_over_tls(server: str, authority: Authority, tmp_path: Path) -> None:
    with haproxy(tmp_path, authority.certify("a.example"), target(server), mode="http") as port:
        trusting = ("--cacert", authority.file)
        rows = fetched(f"https://localhost:{port}/echo?[1-1000]", *trusting, "--tls-server-name", "a.example", "-4")
        assert_echoed(rows, 1000, https=True)
        resolved = ("--resolve", f"a.example:{port}:127.0.0.1")
        assert_echoed(fetched(f"https://a.example:{port}/echo?[1-10]", *trusting, *resolved), 10, https=True)
        (row,) = fetched(f"https://localhost:{port}/echo", *trusting)
        assert ("tls", "the server's certificate is for another name") == (row["error"], row["error_message"])
        assert row["error_detail"] == f"127.0.0.1:{port} as localhost: for a.example, 127.0.0.1"
