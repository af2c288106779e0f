"""`headgate plan` shows the requests that `headgate fetch` sends, and leaves no trace."""

import gzip
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as package
from support.results import rows
from support.run import LONGEST_S, headgate, serving, started, stats, wait_for_requests

ROWS: list[dict[str, Any]] = [
    {"url": "/echo?a=1", "headers": {"X-A": 'it\'s "q" $HOME', "authorization": "of the row"}, "body": "hello\nwörld"},
    {"url": "http://bad host/"},
    {"url": "/echo/./x/../b?c[1]=%20{x}", "method": "PUT", "headers": {"x-other": "1"}, "body": "@file"},
    {"url": "/echo", "method": "DELETE"},
    {"url": "/echo", "method": "PUT"},
]
COLUMNS = ("--method-column", "method", "--headers-column", "headers", "--body-column", "body")
ASKED = (
    *COLUMNS,
    *("-H", "x-job: 1", "-H", "X-Key: of the job", "--secret-header", "x-key", "-H", "Cookie: crumbs"),
    *("--credentials-for", "*"),
)
SECRETS = ("of the row", "of the job", "crumbs")


def plan(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(headgate("plan", *arguments, "--as-json", check=0).stdout)
    return found


def rows_of(server: str, directory: Path, form: str) -> Path:
    """Writes the same rows as a file of this format."""
    rows = [row | {"url": row["url"] if "://" in row["url"] else server + row["url"]} for row in ROWS]
    path = directory / f"rows.{form}"
    if form == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        columns = {
            "url": [row["url"] for row in rows],
            "method": [row.get("method") for row in rows],
            "headers": [json.dumps(row["headers"]) if "headers" in row else None for row in rows],
            "body": [row.get("body") for row in rows],
        }
        pq.write_table(pa.table(columns), path)
    return path


def shown(request: dict[str, Any]) -> dict[str, Any]:
    """Returns a planned request in the form of `/echo`, without secrets."""
    method, path, _ = request["line"].split(" ")
    body = request["body"]
    return {
        "method": method,
        "path": path,
        "headers": request["headers"],
        "body": "" if body is None else body["text"],
    }


def masked(echo: dict[str, Any]) -> dict[str, Any]:
    """Returns the body of `/echo` without secrets."""
    secret = ("authorization", "cookie", "x-key")
    headers = [[name, "***" if name.lower() in secret else value] for name, value in echo["headers"]]
    return echo | {"headers": headers}


@pytest.mark.parametrize("form", ["ndjson", "parquet"])
def test_the_first_requests_are_those_that_are_sent_without_their_secrets(
    form: str, server: str, tmp_path: Path
) -> None:
    source = rows_of(server, tmp_path, form)
    done = headgate("plan", source, *ASKED, "--as-json", check=0)
    assert [] == [secret for secret in SECRETS if secret in done.stdout + done.stderr]
    found = json.loads(done.stdout)
    assert (5, 1, 1) == (found["rows"], found["invalid_rows"], found["invalid_causes"][0]["first_row"])
    sent = {row["row"]: row["body"] for row in headgate("fetch", source, *ASKED, "-o", "-", check=3).rows()}
    assert [0, 2, 3] == [request["row"] for request in found["requests"]]
    for request in found["requests"]:
        assert masked(json.loads(sent[request["row"]])) == shown(request)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_curl_sends_what_headgate_sends(server: str, tmp_path: Path) -> None:
    source = rows_of(server, tmp_path, "ndjson")
    script = headgate("plan", source, *ASKED, "--curl", check=0).stdout
    assert [] == [secret for secret in SECRETS if secret in script]
    secrets = {"SECRET_X_KEY": "of the job", "SECRET_AUTHORIZATION": "of the row", "SECRET_COOKIE": "crumbs"}
    printed = subprocess.run(
        ["/bin/sh"],
        input=script.replace("curl -q", "curl -q -w '\\n' -s").encode(),
        env=os.environ | secrets,
        capture_output=True,
        check=True,
    )
    sent = {
        row["row"]: json.loads(row["body"])
        for row in headgate("fetch", source, *ASKED, "-o", "-").rows()
        if row["body"]
    }
    by_curl = [json.loads(line) for line in printed.stdout.splitlines()]
    assert [comparable(sent[row]) for row in (0, 2, 3)] == [comparable(echo) for echo in by_curl]


def comparable(echo: dict[str, Any]) -> dict[str, Any]:
    """Returns headers in lower case and sorted: neither case nor order has a meaning (RFC 9110 section 5)."""
    return echo | {"headers": sorted((name.lower(), value) for name, value in echo["headers"])}


def test_a_plan_shows_which_origins_get_credentials_and_how_many_rows_do_not(server: str, tmp_path: Path) -> None:
    source = tmp_path / "urls.txt"
    source.write_text(f"{server}/1\nhttp://other.example/2\nhttp://other.example/3\n")
    (tmp_path / "token").write_text("hunter2")
    bearer = ("--bearer", f"@{tmp_path / 'token'}")
    refused = headgate("plan", source, *bearer, check=2).errors()
    assert ["--bearer is a credential, and nothing says which hosts may get it: name their origins with"] == [
        error.partition(" --credentials-for https://api.example.com")[0] for error in refused
    ]
    found = plan(source, *bearer, "--credentials-for", server)
    assert {"origins": [server], "rows_without": 2} == found["credentials"]
    names = [{name.lower() for name, _ in request["headers"]} for request in found["requests"]]
    assert [True, False, False] == ["authorization" in some for some in names]
    text = headgate("plan", source, *bearer, "--credentials-for", server, check=0).stdout
    assert f"for {server}; 2 rows without" in text
    assert plan(f"{server}/[1-3]", *bearer)["credentials"] == {"origins": [server], "rows_without": 0}
    assert plan(source)["credentials"] is None


def test_nothing_is_sent_and_nothing_is_made(tmp_path: Path) -> None:
    with serving() as server:
        source = tmp_path / "urls.txt"
        source.write_text(f"{server}/1\n{server}/2\n")
        text = headgate("plan", source, "-o", tmp_path / "out" / "deep", check=0).stdout
        assert stats(server)["requests"] == 0
    assert [source] == list(tmp_path.iterdir())
    assert text.startswith("plan: nothing was sent\n")


def test_a_probe_sends_so_many_requests_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with serving("--delay", "0.05") as server:
        found = plan(f"{server}/[1-1000]", "-o", tmp_path / "out", "-c", "10", "--probe", "3")
        assert stats(server)["requests"] == 3
    assert [] == list(tmp_path.iterdir())
    probe = found["probe"]
    assert (3, {"200": 3}, {}) == (probe["requests"], probe["statuses"], probe["errors"])
    assert probe["latency_s"] >= 0.05
    # Little's law.
    assert found["seconds"] == pytest.approx(1000 * probe["latency_s"] / 10)


def test_a_probe_without_a_response_shows_why_and_no_time(tmp_path: Path) -> None:
    with serving() as server:
        pass  # no server listens there any more
    found = plan(f"{server}/[1-9]", "-o", tmp_path / "out", "--probe", "2")
    assert ({"connect": 2}, None, None) == (found["probe"]["errors"], found["latency_s"], found["seconds"])


@pytest.mark.parametrize(
    ("ceilings", "seconds", "flags"),
    [
        ([("concurrency", 200.0)], 50.0, ["-c", "100", "--assume-latency", "0.5"]),
        ([("rate", 100.0)], 100.0, ["--rate", "6000/m"]),
        (
            [("rate", 100.0), ("concurrency", 200.0)],
            100.0,
            ["-c", "20", "--assume-latency", "0.1", "--rate", "100/s"],
        ),
        # 8,000 of 10,000 rows go to one host, and take 1,600 s.
        ([("rate_per_host", 6.25), ("rate", 100.0)], 1600.0, ["--rate-per-host", "5/s", "--rate", "100/s"]),
        # The other rows take 1,000 s.
        ([("rate_per_host", 10.0)], 1000.0, ["--rate-per-host", "b.example=2/s", "--rate-per-host", "50/s"]),
        ([("concurrency_per_host", 25.0), ("concurrency", 2560.0)], 400.0, ["--concurrency-per-host", "2"]),
        ([("cost_rate", 100.0)], 100.0, ["--cost-rate", "1000/s", "--cost-estimate", "body-bytes", "-d", "0123456789"]),
        ([], None, []),
    ],
)
def test_the_time_follows_from_the_narrowest_limit(
    ceilings: list[tuple[str, float]], seconds: float | None, flags: list[str], tmp_path: Path
) -> None:
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"http://{'b' if row % 5 == 0 else 'a'}.example/{row}\n" for row in range(10_000)))
    latency = ["--assume-latency", "0.1"] if "--concurrency-per-host" in flags else []
    found = plan(urls, *flags, *latency)
    assert [option for option, _ in ceilings] == [each["option"] for each in found["ceilings"]]
    assert [each["per_s"] for each in found["ceilings"]] == pytest.approx([per_s for _, per_s in ceilings])
    assert found["seconds"] == (seconds and pytest.approx(seconds))


def test_costs_are_those_of_the_column(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("url,tokens\n" + "".join(f"http://a.example/{row},{row % 20}\n" for row in range(1000)))
    found = plan(source, "--cost-rate", "9500/m", "--cost-column", "tokens")
    # A row costs 9.5 on average, so that 1,000 rows take a minute.
    assert [("cost_rate", 158.0)] == [(each["option"], each["limit"] // 1) for each in found["ceilings"]]
    assert found["seconds"] == pytest.approx(60)


def test_hostnames_are_counted_if_limits_are_by_address(tmp_path: Path) -> None:
    source = tmp_path / "urls.txt"
    source.write_text("http://a.example/\nhttp://b.example/\n")
    found = plan(source, "--host-by", "address", "--rate-per-host", "1/s")
    assert (2, "address") == (found["different_hosts"], found["hosts_by"])
    assert ["hostnames are counted as hosts here: their addresses are not looked up"] == found["notes"]


def test_the_sentence_names_the_limit_and_the_time() -> None:
    found = plan("http://127.0.0.1/[1-50000000]", "--rate", "100/s")
    assert (
        "at most 100/s by --rate: 50,000,000 rows take 5 d 18 h, unless responses take more than 2.6 s" == found["time"]
    )


def test_rows_that_an_earlier_run_has_done_are_counted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        urls = f"{server}/{{a,b,c}}/[1-100]"
        headgate("fetch", urls, "-o", out, "-q", "--max-rows", "300", check=0)
        finished = plan(urls, "-o", out, "--max-rows", "300")
        assert ("finished", 300, 0, []) == tuple(finished[key] for key in ("directory", "done", "left", "requests"))
        # Another job is refused with the message of fetch.
        for verb in ("plan", "fetch"):
            done = headgate(verb, urls, "-o", out, "--format", "ndjson", check=2)
            assert "--format was parquet, now it is ndjson" in done.errors()[0]
        assert ("replaced", 300) == tuple(
            plan(urls, "-o", out, "--if-exists", "overwrite")[key] for key in ("directory", "rows_replaced")
        )
        before = sorted(path.name for path in out.rglob("*"))
        plan(urls, "-o", out, "--max-rows", "300")
        assert before == sorted(path.name for path in out.rglob("*"))


def test_a_job_that_was_interrupted_is_planned_from_where_it_stopped(tmp_path: Path) -> None:
    out, urls = tmp_path / "out", tmp_path / "urls.txt"
    with serving() as server:
        lines = [f"{server}/{row}" for row in range(5)] + [f"{server}/fault/hang-before-headers"] * 3
        urls.write_text("\n".join(lines) + "\n")
        headgate("fetch", urls, "-o", out, "-q", "--timeout", "1", "--retries", "0", check=3)
    # A plan knows that the input of the job grew.
    with urls.open("a") as file:
        file.write("http://127.0.0.1:1/more\n" * 2)
    found = plan(urls, "-o", out, "--allow-append")
    assert ("resumed", 10, 8, 2) == tuple(found[key] for key in ("directory", "rows", "done", "left"))
    assert [8, 9] == [request["row"] for request in found["requests"]]
    assert found["notes"] == ["the input was modified since: its rows are compared before the first request"]


def test_how_many_rows_a_text_has_is_estimated_from_its_head(tmp_path: Path) -> None:
    urls = tmp_path / "urls.txt"
    lines = [f"http://h{row % 7}.example/{'x' * (row % 60)}/{row}\n" for row in range(300_000)]
    urls.write_text("".join(lines))
    found = plan(urls)
    assert (False, 100_000, 7) == (found["rows_exact"], found["rows_read"], found["different_hosts"])
    assert found["rows"] == pytest.approx(300_000, rel=0.05)

    few = tmp_path / "few.txt"
    few.write_text("".join(lines[:100_000]))
    assert (True, 100_000) == (plan(few)["rows_exact"], plan(few)["rows"])
    assert (True, 5) == tuple(plan(urls, "--max-rows", "5")[key] for key in ("rows_exact", "rows"))

    packed = tmp_path / "urls.txt.gz"
    packed.write_bytes(gzip.compress("".join(lines).encode(), 1))
    assert (None, True, None) == tuple(plan(packed)[key] for key in ("rows", "compressed", "seconds"))


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        ("standard input can be read only once", ["-"]),
        ("no.txt: no such file", ["no.txt"]),
        ('there is no column "nix" with URLs', ["rows.csv", "--url-column", "nix"]),
        ("this process may have", ["http://127.0.0.1/[1-9999999]", "-c", "9000000"]),
        ("-o out.parquet: results are a directory of files", ["http://127.0.0.1/[1-9]", "-o", "out.parquet"]),
        ("--probe must be at least 1", ["http://127.0.0.1/[1-9]", "--probe", "0"]),
        ("--curl and --as-json are two forms", ["http://127.0.0.1/[1-9]", "--as-json", "--curl"]),
        ("INPUT is missing", []),
    ],
)
def test_the_mistakes_of_fetch_are_refused(
    expected: str, arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("u\n1\n")
    done = headgate("plan", *arguments, check=2)
    assert expected in done.errors()[0]
    assert done.stdout == ""


def test_a_pipe_is_refused_before_it_is_read(tmp_path: Path) -> None:
    pipe = tmp_path / "urls.txt"
    os.mkfifo(pipe)
    assert "can be read only once" in headgate("plan", pipe, check=2).errors()[0]


def test_a_resumed_job_sends_the_same_idempotency_keys(server: str, tmp_path: Path) -> None:
    urls, out = tmp_path / "urls.txt", tmp_path / "out"
    urls.write_text(f"{server}/echo\n")
    headgate("fetch", urls, "-o", out, "--idempotency-key", check=0)
    with urls.open("a") as file:
        file.write(f"{server}/echo\n")
    arguments = (urls, "-o", out, "--idempotency-key", "--allow-append")
    planned = dict(plan(*arguments)["requests"][0]["headers"])
    headgate("fetch", *arguments, check=0)
    assert planned == dict(json.loads(rows(out)[1]["body"])["headers"])

    (note,) = plan(f"{server}/echo", "--idempotency-key")["notes"]
    assert note.startswith("the idempotency keys are examples")


def test_python_has_the_same_plan(server: str, tmp_path: Path) -> None:
    found = package.plan(f"{server}/[1-9]", tmp_path / "out", concurrency=3, assume_latency=0.1)
    assert (9, 3) == (found.rows, len(found.requests))
    assert found.seconds == pytest.approx(0.3)
    printed = plan(f"{server}/[1-9]", "-o", tmp_path / "out", "-c", "3", "--assume-latency", "0.1")
    changing: dict[str, Any] = {"time": "", "machine": {}, "disk": {}}
    assert printed | changing == json.loads(found.to_json()) | changing
    assert "at most 30/s by concurrency" in str(found)
    assert "<caption" in found._repr_html_()
    with pytest.raises(package.InputError, match="no such file"):
        package.plan("no.txt")


def test_a_probe_can_be_interrupted(tmp_path: Path) -> None:
    with (
        serving() as server,
        started("plan", f"{server}/fault/hang-before-headers?[1-9]", "-o", tmp_path / "out", "--probe", "9") as process,
    ):
        wait_for_requests(server, 1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONGEST_S)
    assert process.returncode == 130


def test_a_command_for_curl_names_what_it_leaves_out() -> None:
    proxy, cookie = ("-x", "http://me:secret@127.0.0.1:3128"), ("-H", "Cookie: a=b")
    done = headgate("plan", "http://127.0.0.1:1/", "--curl", *proxy, *cookie)
    assert "# set SECRET_PROXY to the URL of the proxy, which is left out\n" in done.stdout
    assert "# set SECRET_COOKIE to the value of the header, which is left out\n" in done.stdout
    assert "secret@" not in done.stdout


def test_a_plan_without_requests_says_that_there_is_no_command_for_curl(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("id\n..\n", encoding="utf-8")
    script = headgate("plan", source, "--url", "http://127.0.0.1:1/{id}", "--curl", check=0).stdout
    assert script == "# there is no request to show; rows that can't be sent: 1, and the plan itself says why\n"
