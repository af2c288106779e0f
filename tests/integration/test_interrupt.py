"""Ctrl-C, SIGTERM and readers that go away: results so far are written, and nothing is left behind."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headgate import __main__
from support.results import table
from support.run import HEADGATE, LONGEST_S, headgate, serving, started, stats, wait_for, wait_for_requests

READER_GONE = r"stopped after [\d,]+ rows: the reader of standard output has closed it\n"


@pytest.mark.parametrize(("code", "number"), [(130, signal.SIGINT), (143, signal.SIGTERM), (129, signal.SIGHUP)])
def test_an_interrupt_lets_what_is_in_flight_end_and_writes_it(
    code: int, number: signal.Signals, tmp_path: Path
) -> None:
    out, summary_file = tmp_path / "out", tmp_path / "s.json"
    with (
        serving("--delay", "0..1") as server,
        started("fetch", f"{server}/[1-100000]", "-o", out, "-c", "50", "--summary", summary_file) as process,
    ):
        wait_for_requests(server, 100)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=LONGEST_S)
        seen = stats(server)

    assert code == process.returncode, stderr
    summary = json.loads(summary_file.read_text())
    assert (True, None, 0) == (summary["interrupted"], summary["failure"], summary["failed"])
    # Every request that the server saw had time for its response, and is in the results.
    assert seen["requests"] == summary["rows"] == table(out).num_rows
    assert 100 <= summary["rows"] < 100_000
    assert "stopping: requests in flight get up to 8 s" in stderr
    assert "stopped early" in stderr


def open_for_writing(pipe: Path) -> int:
    """Opens a named pipe for writing once a reader opens it, and returns the descriptor."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        try:
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:  # the job has not opened it yet
            time.sleep(0.01)
    raise TimeoutError(pipe)


@pytest.mark.parametrize(("code", "number"), [(130, signal.SIGINT), (143, signal.SIGTERM), (129, signal.SIGHUP)])
@pytest.mark.parametrize("opened", ["input", "authority"])
def test_a_start_that_waits_for_a_pipe_is_interrupted(
    opened: str, code: int, number: signal.Signals, tmp_path: Path
) -> None:
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    of_input: list[str | Path] = [pipe]
    of_authority: list[str | Path] = ["http://127.0.0.1:1/[1-2]", "--cacert", pipe]
    flags = of_input if opened == "input" else of_authority
    with started("fetch", *flags, "-o", tmp_path / "out") as process:
        writer = open_for_writing(pipe)
        process.send_signal(number)
        _, stderr = process.communicate(timeout=LONGEST_S)
        os.close(writer)
    assert (code, "interrupted before the job had started\n") == (
        process.returncode,
        stderr,
    )


def test_a_start_in_a_program_is_interrupted_and_the_program_continues(tmp_path: Path) -> None:
    pipe = tmp_path / "rows.csv"
    os.mkfifo(pipe)
    program = f"""
import sys, headgate
try:
    headgate.fetch({str(pipe)!r}, {str(tmp_path / "out")!r}, progress=False)
except headgate.Interrupted as error:
    print(error.summary, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        writer = open_for_writing(pipe)
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "None\n"
        os.write(writer, b"url\nhttp://127.0.0.1:1/\n")
        os.close(writer)
        process.stdin.close()
        assert process.wait(LONGEST_S) == 0


def test_a_parquet_pipe_is_refused_before_it_is_opened(tmp_path: Path) -> None:
    pipe = tmp_path / "rows.parquet"
    os.mkfifo(pipe)
    message = headgate("fetch", pipe, "-o", tmp_path / "out", check=2).errors()[0]
    assert "not a regular file, and Parquet is read at several positions" in message


def test_requests_in_flight_get_no_more_than_the_grace(tmp_path: Path) -> None:
    with (
        serving() as server,
        started(
            "fetch",
            f"{server}/fault/hang-before-headers?[1-100]",
            "-o",
            tmp_path / "out",
            "-c",
            "10",
            "--shutdown-timeout",
            "0.5",
        ) as process,
    ):
        wait_for_requests(server, 10)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        process.communicate(timeout=LONGEST_S)
        assert time.monotonic() - begun < 10
    assert process.returncode == 130


def test_a_second_interrupt_ends_it_now(tmp_path: Path) -> None:
    with (
        serving() as server,
        started(
            "fetch",
            f"{server}/fault/hang-before-headers?[1-100]",
            "-o",
            tmp_path / "out",
            "-c",
            "10",
            "--shutdown-timeout",
            "300",
            "--timeout",
            "600",
        ) as process,
    ):
        wait_for_requests(server, 10)
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("stopping: ")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LONGEST_S)
    assert process.returncode == 130
    assert "Traceback" not in stderr


def test_a_terminal_that_goes_away_costs_no_results(tmp_path: Path) -> None:
    out, summary_file = tmp_path / "out", tmp_path / "s.json"
    with serving("--delay", "0..0.2") as server:
        terminal, ours = pty.openpty()
        command: list[str | Path] = [
            HEADGATE,
            "fetch",
            f"{server}/[1-1000000]",
            "-o",
            out,
            "-c",
            "20",
            "--summary",
            summary_file,
        ]
        with subprocess.Popen(
            ["/usr/bin/setsid", "--ctty", *command],
            stdin=ours,
            stdout=ours,
            stderr=ours,
            env=os.environ | {"TERM": "xterm"},
        ) as process:
            os.close(ours)
            wait_for_requests(server, 100)
            os.close(terminal)
            assert process.wait(LONGEST_S) == 129
    summary = json.loads(summary_file.read_text())
    assert summary["interrupted"]
    assert 100 <= summary["rows"] == table(out).num_rows


@pytest.mark.parametrize(("message", "flags"), [(READER_GONE, []), ("", ["-q"])])
def test_a_reader_that_goes_away_ends_the_job_as_an_interrupt_does(
    message: str, flags: list[str], tmp_path: Path
) -> None:
    summary_file = tmp_path / "s.json"
    with (
        serving() as server,
        started("fetch", f"{server}/[1-100000000]", "-o", "-", "--summary", summary_file, *flags) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        assert json.loads(process.stdout.readline())["status"] == 200
        process.stdout.close()
        assert process.wait(LONGEST_S) == 141
        assert re.fullmatch(message, process.stderr.read())
    summary = json.loads(summary_file.read_text())
    assert (True, True, None) == (summary["interrupted"], summary["reader_gone"], summary["failure"])


def test_a_reader_that_goes_away_after_the_last_row_has_missed_nothing() -> None:
    with serving() as server, started("fetch", f"{server}/[1-3]", "-o", "-", "-q") as process:
        assert process.stdout is not None
        assert 3 == len([process.stdout.readline() for _ in range(3)])
        process.stdout.close()
        assert process.wait(LONGEST_S) == 0


def test_in_python_a_reader_that_goes_away_is_an_error_of_the_output() -> None:
    with serving() as server:
        program = f"""
import headgate, sys
try:
    headgate.fetch("{server}/[1-100000000]", "-")
except headgate.OutputError as error:
    print(error, error.summary.reader_gone, file=sys.stderr)
"""
        with subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.stdout.close()
            assert process.stderr is not None
            assert re.fullmatch(f"{READER_GONE[:-1]} True\n", process.stderr.read())
            assert process.wait(LONGEST_S) == 0


def test_a_full_disk_has_its_exit_code() -> None:
    with serving() as server, Path("/dev/full").open("wb") as full:
        process = subprocess.run(
            [HEADGATE, "fetch", f"{server}/[1-1000]", "-o", "-"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=LONGEST_S,
            check=False,
            text=True,
        )
    assert process.returncode == 1, process.stderr
    assert "standard output" in process.stderr
    assert "Traceback" not in process.stderr


def test_a_signal_that_ends_the_wait_for_readers_is_no_interrupt_of_the_job(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/status/503?[1-5]", "-o", out, "--retries", "0", check=3)
    with started("retry", out, "--keep-replaced", "10m") as process:
        wait_for(lambda: json.loads(headgate("status", out, "--json").stdout)["state"] == "keeping")
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LONGEST_S)
    assert 3 == process.returncode


def test_nothing_is_imported_before_an_interrupt_ends_the_command_silently() -> None:
    package = str(Path(__main__.__file__).parents[1])
    program = f"""
import sys
sys.path.insert(0, {package!r})
before = set(sys.modules)
import headgate.__main__
print(*sorted(set(sys.modules) - before))
"""
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    assert "headgate headgate.__main__\n" == done.stdout
