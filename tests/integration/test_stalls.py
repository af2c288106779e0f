"""A process that was stopped for a while (SIGSTOP, Ctrl-Z, `docker pause`) blames no server and loses no row."""

import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from support.origin import changing
from support.results import table
from support.run import LONGEST_S, get, headgate, serving, started, stats, wait_for, wait_for_requests

TIMEOUT_S: Final = "4"
STOPPED_S: Final = 5
"""Longer than any timeout in these tests."""


@contextmanager
def stopped(process: subprocess.Popen[str]) -> Iterator[None]:
    """Stops the process until the end of the block."""
    process.send_signal(signal.SIGSTOP)
    wait_for(lambda: Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def time_passes() -> None:
    """Waits for the slow response of a server."""
    with serving() as server:
        get(f"{server}/delay/{STOPPED_S}")


def ended(process: subprocess.Popen[str], summary: Path) -> dict[str, Any]:
    """Returns the summary of a command that must succeed."""
    _, stderr = process.communicate(timeout=LONGEST_S)
    assert process.returncode == 0, stderr
    figures: dict[str, Any] = json.loads(summary.read_text())
    stopped_s = sum(map(float, re.findall(r"the process was stopped for ([\d.]+) s\n", stderr)))
    # A busy machine may have stopped it, too, for less than is reported.
    assert 0.9 * STOPPED_S <= stopped_s <= figures["stalled_s"] + 0.1
    return figures


def connections(server: str) -> int:
    """Returns how many connections were made to the server."""
    port, established = int(server.rsplit(":", 1)[1]), "01"
    lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    return sum(line[2].endswith(f":{port:04X}") and line[3] == established for line in lines)


@pytest.mark.parametrize(
    ("protocol", "path"),
    [
        *((protocol, "/[1-100]") for protocol in ("http1", "tls", "http2", "http2-tls")),
        *((protocol, "/drip?duration=1&[1-100]") for protocol in ("http1", "http2-tls")),
    ],
)
def test_what_has_arrived_while_the_process_was_stopped_counts(protocol: str, path: str, tmp_path: Path) -> None:
    summary, out = tmp_path / "summary.json", tmp_path / "out"
    serve, fetch = ["--delay", "1"], ["--timeout", TIMEOUT_S, "--retries", "0", "-c", "50"]
    if "http2" in protocol:
        serve.append("--http2")
    if "tls" in protocol:
        serve += ["--self-signed", str(tmp_path / "cert.pem")]
        fetch.append("--insecure")
    elif "http2" in protocol:
        fetch.append("--http2-prior-knowledge")
    with (
        serving(*serve) as server,
        started("fetch", server + path, "-o", out, "--summary", summary, *fetch) as process,
    ):
        wait_for(lambda: connections(server) >= (1 if "http2" in protocol else 50))
        with stopped(process):
            time_passes()
        figures = ended(process, summary)
    assert {"200": 100} == figures["statuses"]
    assert {} == figures["retries"]
    assert list(range(100)) == table(out).sort_by("row")["row"].to_pylist()


def test_no_host_goes_down_and_no_row_fails_because_the_process_was_stopped(tmp_path: Path) -> None:
    summary, out = tmp_path / "summary.json", tmp_path / "out"
    limits = ["-c", "100", "--timeout", TIMEOUT_S, "--host-down-after", "3", "--commit-interval", "1"]
    with (
        serving("--delay", "0.05") as server,
        started("fetch", f"{server}/[1-20000]", "-o", out, "--summary", summary, *limits) as process,
    ):
        wait_for_requests(server, 2000)
        with stopped(process):
            time_passes()
        figures = ended(process, summary)
        seen = stats(server)["requests"]
    assert ({"200": 20_000}, 0, {}) == (figures["statuses"], figures["failed"], figures["retries"])
    assert list(range(20_000)) == table(out).sort_by("row")["row"].to_pylist()
    assert 20_000 <= seen <= 20_000 + figures["resent"] + 2, "no request is sent twice without need"


def rates(log: Path) -> list[float]:
    """Returns the rates in the records of progress."""
    events = [json.loads(line) for line in log.read_text().splitlines()]
    return [event["requests_per_s"] for event in events if event["event"] == "progress"]


def test_rates_are_kept_and_reported_after_the_process_was_stopped(tmp_path: Path) -> None:
    summary, out = tmp_path / "summary.json", tmp_path / "out"
    log = tmp_path / "log.jsonl"
    limits = ["-c", "100", "--rate", "100/s", "--burst", "1"]
    limits += ["--log-format", "json", "--log-file", str(log), "--log-interval", "1s"]
    with (
        # A burst of two seconds' worth is more than a busy machine delays the server, and less than the rows that are
        # left.
        serving("--api-rate", "100/s", "--api-burst", "200") as server,
        started("fetch", f"{server}/[1-400]", "-o", out, "--summary", summary, *limits) as process,
    ):
        wait_for(lambda: log.exists() and any(rates(log)))
        with stopped(process):
            time_passes()
        process.wait(LONGEST_S)
    figures = json.loads(summary.read_text())
    assert ({"200": 400}, {}) == (figures["statuses"], figures["retries"])
    events = [json.loads(line) for line in log.read_text().splitlines()]
    stall = next(index for index, event in enumerate(events) if event["event"] == "stall")
    then = next(event for event in events[stall:] if event["event"] == "progress")
    # The time in which the process was stopped is no wait for anything.
    points = [json.loads(line) for line in (out / "_headgate" / "series.ndjson").read_text().splitlines()[1:]]
    assert max(point["bottlenecks"].get("stalled", 0) for point in points) > 900 * STOPPED_S
    assert then["bottleneck"]["kind"] != "input"


def test_a_row_that_waits_for_its_next_attempt_keeps_what_is_left_of_its_deadline(tmp_path: Path) -> None:
    summary, out = tmp_path / "summary.json", tmp_path / "out"
    limits = ["--retry-delay", "1", "--retries", "8", "--total-timeout", TIMEOUT_S]
    with changing() as origin:
        origin.statuses["/1"] = 503
        with started("fetch", f"{origin.url}/1", "-o", out, "--summary", summary, *limits) as process:
            wait_for(lambda: len(origin.requests) >= 1)
            with stopped(process):
                time_passes()
                del origin.statuses["/1"]
            figures = ended(process, summary)
    assert ({"200": 1}, 1) == (figures["statuses"], sum(figures["retries"].values()))


@pytest.mark.parametrize(("method", "code"), [("GET", 0), ("POST", 3)])
def test_a_request_whose_server_hung_up_meanwhile_is_resent_if_that_does_no_harm(
    method: str, code: int, tmp_path: Path
) -> None:
    summary, out = tmp_path / "summary.json", tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        flags: list[str | Path] = ["--method", method, "--retries", "0", "--timeout", TIMEOUT_S, "--summary", summary]
        with started("fetch", url, "-o", out, *flags) as process:
            first, _ = listener.accept()
            assert first.recv(65_536).startswith(method.encode())
            with stopped(process):
                first.close()
                time_passes()
            if code == 0:
                second, _ = listener.accept()
                with second:
                    assert second.recv(65_536).startswith(method.encode())
                    second.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                    process.wait(LONGEST_S)
            process.wait(LONGEST_S)
    assert code == process.returncode
    figures = json.loads(summary.read_text())
    expected = ({"200": 1}, {}, 1) if code == 0 else ({}, {"connection_closed": 1}, 0)
    assert expected == (figures["statuses"], figures["errors"], figures["resent"])


def test_a_connection_that_was_being_made_is_made_after_all(tmp_path: Path) -> None:
    summary, out = tmp_path / "summary.json", tmp_path / "out"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}/"
        flags: list[str | Path] = ["--retries", "0", "--connect-timeout", TIMEOUT_S, "--summary", summary]
        with started("fetch", url, "-o", out, *flags) as process:
            first, _ = listener.accept()
            assert first.recv(1)
            with stopped(process):
                time_passes()
            second, _ = listener.accept()
            assert second.recv(1), "it tries once more"
            second.close()
            first.close()
            process.wait(LONGEST_S)
    assert process.returncode == 3, "the server did not speak TLS"


def test_a_body_that_is_being_sent_is_sent_to_its_end(tmp_path: Path) -> None:
    summary, out, body = tmp_path / "summary.json", tmp_path / "out", tmp_path / "body"
    length = 64 * 1024 * 1024
    with body.open("wb") as file:
        file.truncate(length)
    rows = tmp_path / "rows.csv"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        rows.write_text(f"url,file\nhttp://127.0.0.1:{listener.getsockname()[1]}/,{body}\n")
        flags = ["--method", "POST", "--body-file-column", "file", "--retries", "0", "--timeout", TIMEOUT_S]
        idle: list[str | Path] = ["--idle-timeout", "1", "--summary", summary]
        with started("fetch", rows, "-o", out, *flags, *idle) as process:
            connection, _ = listener.accept()
            with connection:
                assert connection.recv(1)
                with stopped(process):
                    time_passes()
                received = 1
                while received < length:
                    received += len(connection.recv(1 << 20))
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                process.wait(LONGEST_S)
    assert {"200": 1} == json.loads(summary.read_text())["statuses"]


ASKS: Final = """
import sys, headgate

with headgate.Client(total_timeout=6, timeout=60, retries=0) as client:
    try:
        print(client.get(sys.argv[1]).status_code)
    except headgate.RequestError as error:
        print(type(error).__name__)
"""


def test_a_caller_waits_until_the_deadline_at_most_and_a_job_has_the_time_that_is_left(tmp_path: Path) -> None:
    summary, out = tmp_path / "summary.json", tmp_path / "out"
    flags: list[str | Path] = ["--total-timeout", "6", "--timeout", "60", "--retries", "0", "--summary", summary]
    with serving() as server:
        url = f"{server}/delay/{STOPPED_S + 5}"
        caller = [sys.executable, "-c", ASKS, url]
        with (
            subprocess.Popen(caller, stdout=subprocess.PIPE, text=True) as client,
            started("fetch", url, "-o", out, *flags) as job,
        ):
            wait_for_requests(server, 2)
            with stopped(client), stopped(job):
                time_passes()
            printed, _ = client.communicate(timeout=LONGEST_S)
            figures = ended(job, summary)
    assert ("TotalTimeout", {"200": 1}) == (printed.strip(), figures["statuses"])


def test_a_process_that_keeps_files_for_readers_is_not_stopped(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log.ndjson"
    with changing() as origin:
        origin.statuses |= {"/2": 503}
        headgate("fetch", f"{origin.url}/[1-3]", "-o", out, "-q", "--retries", "0", check=3)
        origin.statuses.clear()
        keep = ("--keep-replaced", "10m", "--log-file", log, "--log-format", "json", "--log-interval", "100ms")
        with started("retry", out, *keep) as process:
            wait_for(lambda: log.exists() and '"keep"' in log.read_text())
            kept_at = log.read_text().count("\n")
            wait_for(lambda: log.read_text().count("\n") > kept_at + 5)
            process.send_signal(signal.SIGTERM)
            _, stderr = process.communicate(timeout=LONGEST_S)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    at = {
        record["event"]: datetime.fromisoformat(record["time"]) for record in records if record["event"] != "progress"
    }
    assert records[-1]["elapsed_s"] < (at["keep"] - at["start"]).total_seconds() + 0.2, (
        "keeping files is no part of the run"
    )
    assert '"stop"' in log.read_text()
    assert '"stall"' not in log.read_text()
    assert "requests in flight get" not in stderr, stderr
