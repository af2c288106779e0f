"""`headgate retry` requests failed rows once more, and moves those that succeed to the other results."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from support.origin import Origin, changing
from support.results import rows
from support.run import LONGEST_S, headgate, serving, started, stats, wait_for, wait_for_requests


def failing(origin: Origin, out: Path, *flags: str) -> None:
    """Runs a job of ten rows, three of which fail."""
    origin.statuses |= {"/2": 503, "/4": 429, "/6": 500}
    headgate("fetch", f"{origin.url}/[1-10]", "-o", out, "--retries", "0", *flags, check=3)
    origin.requests.clear()


def paths(origin: Origin) -> list[str]:
    return sorted(path for _, path, _, _ in origin.requests)


def test_rows_that_succeed_now_are_no_longer_failed(tmp_path: Path) -> None:
    out, summary_file = tmp_path / "out", tmp_path / "s.json"
    with changing() as origin:
        failing(origin, out)
        origin.statuses = {"/4": 429}
        done = headgate("retry", out, "--retries", "0", "--summary", summary_file, check=3)
        assert ["/2", "/4", "/6"] == paths(origin)
        lines = done.stderr.splitlines()
        assert lines[0].startswith("done: 3 rows retried in ")
        assert [["succeeded", "2"], ["failed", "1"]] == [lines[1].split()[:2], lines[2].split()]
        assert "in total 10 of 10 rows done, 1 failed" in lines
        summary = json.loads(summary_file.read_text())
        assert (3, 2, 1, 1, True) == (
            summary["rows"],
            summary["succeeded"],
            summary["failed"],
            summary["job"]["failed"],
            summary["job"]["finished"],
        )
        results = {row["row"]: (row["status"], row["attempts"]) for row in rows(out)}
        again = {1: (200, 2), 3: (429, 2), 5: (200, 2)}
        assert dict.fromkeys(range(10), (200, 1)) | again == results

        origin.statuses = {}
        headgate("retry", out, check=0)
        assert [] == list(out.glob("failed-*"))
        assert (200, 3) == next((row["status"], row["attempts"]) for row in rows(out) if row["row"] == 3)
        nothing = headgate("retry", out, check=0)
    assert ["nothing to retry: no row of the job has failed"] == nothing.stderr.splitlines()
    runs = json.loads(headgate("status", out, "--as-json", check=0).stdout)["runs"]
    assert ["fetch", "retry", "retry"] == [run["command"] for run in runs]


def test_only_failures_of_the_named_kinds_are_retried(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        failing(origin, out)
        origin.statuses = {}
        nothing = headgate("retry", out, "--only", "timeout", check=3)
        assert "nothing to retry among the 3 failed rows of the job (status:429 1, status:500 1, " in nothing.stderr
        assert [] == origin.requests
        headgate("retry", out, "--only", "timeout,status:5xx", check=3)
        assert ["/2", "/6"] == paths(origin)
        headgate("retry", out, "--only", "status:429", check=0)
        assert ["/2", "/4", "/6"] == paths(origin)


@pytest.mark.parametrize(
    ("expected", "flags"),
    [
        ("--header was x-tenant, now it is not given; their values aren't stored", ["-d", "a=1"]),
        (
            "the value of --header x-tenant has changed (if it is a credential, say so with --secret-header x-tenant)",
            ["-H", "X-Tenant: two", "-d", "a=1"],
        ),
        (
            "--data was given, now it is not; their values aren't stored: give the same ones again",
            ["-H", "X-Tenant: one"],
        ),
        ("--data is a different body", ["-H", "X-Tenant: one", "-d", "a=2"]),
    ],
)
def test_headers_and_data_must_be_those_of_the_job(expected: str, flags: list[str], tmp_path: Path) -> None:
    out, given = tmp_path / "out", ["-H", "X-Tenant: one", "-d", "a=1"]
    with changing() as origin:
        failing(origin, out, *given)
        refused = headgate("retry", out, *flags, check=2)
        assert expected in refused.errors()[0]
        assert [] == origin.requests
        origin.statuses = {}
        headgate("retry", out, *given, check=0)
        assert {("POST", "one", b"a=1")} == {(method, token, body) for method, _, token, body in origin.requests}


def test_an_invalid_request_is_retried_only_by_name(tmp_path: Path) -> None:
    out, urls = tmp_path / "out", tmp_path / "urls.txt"
    with changing() as origin:
        urls.write_text(f"no URL\n{origin.url}/2\n")
        origin.statuses["/2"] = 503
        headgate("fetch", urls, "-o", out, "--retries", "0", check=3)
        origin.statuses.clear()
        done = headgate("retry", out, check=3)
        note = (
            "note: 1 failed row was left out, because its request is invalid;"
            " to retry anyway, use --only invalid_request"
        )
        assert note in done.stderr.splitlines()
        assert ["/2", "/2"] == paths(origin)
        nothing = headgate("retry", out, check=3).stderr.splitlines()
        assert ["nothing to retry among the 1 failed row of the job (invalid_request 1)", note] == nothing
        named = headgate("retry", out, "--only", "invalid_request", check=3)
        assert named.stderr.startswith("done: 1 row retried in ")
        assert note not in named.stderr


def test_mistakes_and_missing_jobs_exit_with_2(tmp_path: Path) -> None:
    assert "no such directory" in headgate("retry", tmp_path / "no", check=2).errors()[0]
    with changing() as origin:
        headgate("fetch", f"{origin.url}/[1-3]", "-o", tmp_path / "out", check=0)
    unknown = headgate("retry", tmp_path / "out", "--only", "timeouts", check=2).errors()[0]
    assert unknown.startswith("--only names 'timeouts', which is neither a status such as 503 or 5xx nor one of ")


def test_rows_of_standard_input_cannot_be_retried(tmp_path: Path) -> None:
    with changing() as origin:
        origin.statuses["/1"] = 503
        headgate("fetch", "-", "-o", tmp_path / "out", "--retries", "0", stdin=f"{origin.url}/1\n", check=3)
        refused = headgate("retry", tmp_path / "out", check=2)
    assert "can't be read again: its rows can't be retried" in refused.errors()[0]


@pytest.mark.parametrize(("code", "number"), [(130, signal.SIGINT), (143, signal.SIGTERM)])
def test_a_retry_that_is_stopped_can_be_resumed(code: int, number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving("--status", "503", "--delay", "0..0.1") as server:
        headgate("fetch", f"{server}/[1-500]", "-o", out, "-c", "100", "--retries", "0", check=3)
        with started("retry", out, "-c", "20", "--retries", "0") as process:
            wait_for_requests(server, 600)
            process.send_signal(number)
            _, stderr = process.communicate(timeout=LONGEST_S)
        assert code == process.returncode, stderr
        assert "run the same command again to resume" == stderr.splitlines()[-1]
        assert list(range(500)) == [row["row"] for row in rows(out)]
        assert {1, 2} == {row["attempts"] for row in rows(out)}
        headgate("retry", out, "-c", "100", "-q", "--retries", "0", check=3)
    assert list(range(500)) == [row["row"] for row in rows(out)]


def test_quiet_prints_one_line_if_rows_fail_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        failing(origin, out)
        causes = "status:429 1, status:500 1, status:503 1"
        printed = headgate("retry", out, "-q", "--retries", "0", check=3).stderr
        assert f"3 of 10 rows failed ({causes}): headgate retry {out}\n" == printed
        origin.statuses = {}
        assert "" == headgate("retry", out, "-q", check=0).stderr


def test_a_retry_of_nothing_needs_no_credentials(server: str, tmp_path: Path) -> None:
    headgate("fetch", f"{server}/[1-2]", "-o", tmp_path / "out", "-H", "Authorization: token", check=0)
    nothing = headgate("retry", tmp_path / "out", check=0)
    assert ["nothing to retry: no row of the job has failed"] == nothing.stderr.splitlines()


def test_a_row_that_robots_txt_blocked_is_retried_only_if_it_allows_it_now(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses = {"/robots.txt": 503}
        headgate("fetch", f"{origin.url}/[1-3]", "-o", out, "--obey-robots", "--retries", "0", check=3)
        headgate("retry", out, "--retries", "0", check=3)
        assert ["/robots.txt"] * 2 == paths(origin)
        origin.statuses = {"/robots.txt": 404}
        headgate("retry", out, check=0)
        assert ["/1", "/2", "/3", *["/robots.txt"] * 3] == paths(origin)


def test_a_retry_has_the_limits_of_its_job_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    out, summary = tmp_path / "out", tmp_path / "summary.json"
    with serving("--status", "503") as server:
        limits = ("--concurrency-per-host", "2", "--rate", "40/s", "--retries", "0")
        headgate("fetch", f"{server}/[1-41]", "-o", out, *limits, check=3)
    port = server.rpartition(":")[2]
    with serving("--port", port, "--delay", "0.05", "--status", "503") as server:
        done = headgate("retry", out, "--summary", summary, check=3)
        assert (
            "note: as the job was run: --concurrency-per-host 2, --rate 40/s, --retries 0" in done.stderr.splitlines()
        )
        assert (41, 2) == tuple(stats(server)[key] for key in ("requests", "max_requests_in_progress"))
        assert json.loads(summary.read_text())["elapsed_s"] >= 40 / 40 * 0.9
    with serving("--port", port, "--delay", "0.05") as server:
        done = headgate("retry", out, "--concurrency-per-host", "4", "--rate", "9000/s", check=0)
        assert "note: as the job was run: --retries 0" in done.stderr.splitlines()
        assert 4 == stats(server)["max_requests_in_progress"]


def test_a_retry_has_the_limits_of_the_last_run_and_those_that_were_set_meanwhile(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        failing(origin, out, "--rate", "500/s", "--max-rows", "5", "--host-by", "origin")
        fetch = ("fetch", f"{origin.url}/[1-10]", "-o", out, "--retries", "0")
        origin.held = {"/9"}
        with started(
            *fetch, "--timeout", "45", "--rate-per-host", f"{origin.url}=900/s", "--host-by", "origin"
        ) as process:
            wait_for(lambda: "/9" in paths(origin))
            headgate("set", out, "--retry-delay", "0.25", "--rate-per-host", f"{origin.url}=800/s", check=0)
            origin.released.set()
            process.communicate(timeout=LONGEST_S)
        notes = headgate("retry", out, "--timeout", "30", check=3).stderr.splitlines()
        note = f"--rate-per-host {origin.url}=800/s, --host-by origin, --retries 0, --retry-delay 0.25"
        assert f"note: as the job was run: {note}" in notes


@pytest.mark.parametrize("form", ["parquet", "ndjson"])
def test_a_row_that_fails_for_another_reason_keeps_its_first_error(form: str, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def details() -> dict[int, Any]:
        lines = [json.loads(line) for part in out.glob("failed-*.ndjson") for line in part.read_text().splitlines()]
        failed = lines if form == "ndjson" else [row for row in rows(out) if row["failed"]]
        return {row["row"] + 1: row["error_detail"] for row in failed}

    with changing(b"no JSON") as origin:
        failing(origin, out, "--format", form, "--extract", "a=$.a", "--require", "a", "--fail-on", "401,429,5xx")
        unexpected = {row: detail for row, detail in details().items() if row not in {2, 4, 6}}
        retry = ("retry", out, "--retries", "0")
        origin.statuses |= {f"/{row}": 401 for row in (1, 2, 3)} | {"/4": 429}
        for _ in range(2):
            headgate(*retry, check=3)
            assert details()[1].startswith("before: unexpected_response: ")
            assert len(details()[1]) < 600
            assert ("before: status:503", None, None) == tuple(details()[row] for row in (2, 4, 6))
            assert unexpected[5] == details()[5], "the same error once more"
        origin.statuses = {"/2": 500, "/3": 200}
        headgate(*retry, check=3)
        assert "before: status:503" == details()[2], "the first error and the last one"
        assert unexpected[3] == details()[3], "the first error once more"
        origin.body = b'{"a": 1}'
        origin.statuses = {"/2": 503}
        headgate(*retry, check=3)
        assert {2: None} == details()
