"""`--log-format`, `--log-file` and `--log-interval`: each event of a run is one record, in text or JSON."""

import json
import re
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from support.run import LONGEST_S, headgate, serving, started, wait_for, wait_for_requests

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (INFO   |WARNING|ERROR  ) (\w+): (.+)")


def test_each_event_of_a_run_and_its_resumption_is_one_record(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log.ndjson"
    flags = ("-o", out, "--log-format", "json", "--log-file", log, "--log-interval", "100ms", "--shutdown-timeout", "0")
    before = datetime.now(UTC)
    with serving() as server:
        urls = [f"{server}/status/{200 if row % 2 else 404}?{row}" for row in range(40)]
        (tmp_path / "urls.txt").write_text("\n".join([f"{server}/fault/hang-before-headers", *urls]))
        fetch = ("fetch", tmp_path / "urls.txt", *flags, "--commit-interval", "100ms")
        with started(*fetch) as process:
            wait_for(lambda: any(record["event"] == "commit" for record in records(log)))
            headgate("pause", out, check=0)
            wait_for(lambda: "pause" in events(log))
            headgate("unpause", out, check=0)
            wait_for(lambda: "unpause" in events(log))
            headgate("set", out, "--rate", "50/s", check=0)
            wait_for(lambda: "set" in events(log))
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LONGEST_S)
        first = records(log)
        assert ("start", "end") == (first[0]["event"], first[-1]["event"])
        assert {"progress", "commit", "pause", "unpause", "stop"} <= set(events(log))
        assert [{"rate": "50/s"}] == [record["set"] for record in first if record["event"] == "set"]
        assert ("fetch", process.pid, 0) == tuple(first[0][name] for name in ("command", "pid", "rows_before"))
        (stop,) = (record for record in first if record["event"] == "stop")
        assert ("SIGTERM", "warning") == (stop["signal"], stop["level"])
        assert (40, True) == (first[-1]["rows"], first[-1]["interrupted"])
        times = [datetime.fromisoformat(record["time"]) for record in first]
        assert times == sorted(times)
        assert before.replace(microsecond=0) <= times[0]

        (tmp_path / "urls.txt").write_text("\n".join([f"{server}/1", *urls]))
        headgate(*fetch, check=2)
        (tmp_path / "urls.txt").write_text("\n".join([f"{server}/fault/hang-before-headers", *urls]))
        headgate(*fetch, "--timeout", "100ms", "--retries", "0", check=3)
    second = records(log)[len(first) :]
    assert ["start", "resume"] == [record["event"] for record in second[:2]]
    assert ("end", "warning", 1) == tuple(second[-1][name] for name in ("event", "level", "failed"))


def test_without_a_file_json_replaces_all_words(tmp_path: Path, server: str) -> None:
    done = headgate("fetch", f"{server}/[1-3]", "-o", tmp_path / "out", "--log-format", "json", check=0)
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert ("start", "end") == (found[0]["event"], found[-1]["event"])
    assert (3, "info") == (found[-1]["succeeded"], found[-1]["level"])


def test_a_run_that_cannot_start_has_a_record_too(tmp_path: Path, server: str) -> None:
    log = tmp_path / "log.ndjson"
    fetch = ("fetch", tmp_path / "missing.csv", "-o", tmp_path / "out", "--log-format", "json")
    done = headgate(*fetch, check=2)
    (record,) = map(json.loads, done.stderr.splitlines())
    assert ("end", "error", "InputError") == tuple(record[name] for name in ("event", "level", "error"))
    assert "missing.csv" in record["message"]

    done = headgate(*fetch, "--log-file", log, check=2)
    assert [record["message"]] == done.errors() == [record["message"] for record in records(log)]

    # With -q there are words alone.
    done = headgate(*fetch, "-q", check=2)
    assert [record["message"]] == done.errors()
    failing = (
        "fetch",
        f"{server}/status/404",
        "-o",
        tmp_path / "two",
        "--fail-on",
        "404",
        "--log-format",
        "json",
        "-q",
    )
    assert "1 of 1 row failed" in headgate(*failing, check=3).stderr


def test_text_has_times_and_levels_and_a_summary_for_people(tmp_path: Path, server: str) -> None:
    log = tmp_path / "log.txt"
    fetch = ("fetch", f"{server}/status/404?[1-3]", "-o", tmp_path / "out", "--fail-on", "404", "--log-file", log)
    headgate(*fetch, "-q", check=3)
    lines = log.read_text().splitlines()
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches), lines
    assert ("start", "end") == (matches[0] and matches[0][2], matches[-1] and matches[-1][2])
    done = headgate("retry", tmp_path / "out", "--log-format", "text", check=3)
    assert LINE.fullmatch(done.stderr.splitlines()[0])
    assert "results are in" in done.stderr


def test_what_a_host_does_is_an_event(tmp_path: Path) -> None:
    log = tmp_path / "log.ndjson"
    with serving() as server:
        url = f"{server}/status/503?[1-200]"
        with started("fetch", url, "-o", tmp_path / "out", "--log-file", log, "--log-format", "json") as process:
            wait_for_requests(server, 20)
            wait_for(lambda: "breaker_open" in events(log))
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=LONGEST_S)
    (opened,) = (record for record in records(log) if record["event"] == "breaker_open")
    assert ("127.0.0.1", "warning") == (opened["host"], opened["level"])


def test_the_run_after_a_kill_says_when_that_was(tmp_path: Path, server: str) -> None:
    log, out, summary = tmp_path / "log.ndjson", tmp_path / "out", tmp_path / "summary.json"
    fetch = ("fetch", f"{server}/page/[1-100]", "-o", out, "--log-file", log, "--log-format", "json")
    began, before, runs = datetime.now(UTC), 0, []
    for end in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        with started(*fetch, "--rate", "5/s", "--commit-interval", "100ms") as process:
            wait_for(lambda: "commit" in events(log)[before:])  # noqa: B023 - it is called in this iteration
            process.send_signal(end)
            process.communicate(timeout=LONGEST_S)
        runs.append([event for event in events(log)[before:] if event in {"start", "after_kill", "resume"}])
        before = len(events(log))
    last = headgate(*fetch, "--summary", summary)
    retry = headgate("retry", out, "--only", "200")

    assert [["start"], ["start", "after_kill", "resume"], ["start", "resume"]] == runs
    (first, second) = (record for record in records(log) if record["event"] == "after_kill")
    times = [datetime.fromisoformat(record["previous_killed_at"]) for record in (first, second)]
    assert began <= times[0] < times[1] <= datetime.now(UTC)
    assert second["message"] in last.stderr
    assert second["previous_killed_at"] == json.loads(summary.read_text())["job"]["previous_killed_at"]
    assert "was killed" not in retry.stderr


def test_the_run_after_a_kill_at_the_end_of_the_job_says_so_too(tmp_path: Path, server: str) -> None:
    out, log = tmp_path / "out", tmp_path / "log.ndjson"
    fetch = ("fetch", f"{server}/page/[1-3]", "-o", out)
    headgate(*fetch)
    with started("retry", out, "--only", "200", "--keep-replaced", "1h", "--log-file", log) as process:
        wait_for(lambda: "keep" in log.read_text() if log.exists() else False)
        process.kill()
        process.communicate(timeout=LONGEST_S)
    assert "the process before this one was killed" in headgate(*fetch).stderr
    assert "killed" not in headgate(*fetch).stderr


def test_a_log_that_cannot_be_written_is_a_mistake(tmp_path: Path) -> None:
    fetch = ("fetch", "http://127.0.0.1:1/", "-o", tmp_path / "out")
    assert [f"--log-file must be a file, not '{tmp_path}'"] == headgate(
        *fetch, "--log-file", tmp_path, check=2
    ).errors()
    assert ["--log-interval must be more than 0 seconds"] == headgate(*fetch, "--log-interval", "0", check=2).errors()


def records(log: Path) -> list[dict[str, Any]]:
    """The complete records of a log."""
    text = log.read_text() if log.exists() else ""
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def events(log: Path) -> list[str]:
    """The names of the events in a log."""
    return [record["event"] for record in records(log)]
