"""Runs the installed command, as a user would."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HEADGATE = Path(sys.executable).with_name("headgate")
LONGEST_S = 150
"""The longest that one command may run; it is below the timeout of a test, so that the error names the command."""
POLL_S = 0.002
"""The pause between two looks at another process: polling without a pause would take a core from it."""


def headgate(*arguments: str | Path, stdin: str | bytes = b"", check: int | None = None) -> "Done":
    """Runs the command to its end, and fails if it did not end with the exit code `check`."""
    given = stdin.encode() if isinstance(stdin, str) else stdin
    done = Done(
        subprocess.run([HEADGATE, *arguments], input=given, capture_output=True, timeout=LONGEST_S, check=False)
    )
    assert "Traceback" not in done.stderr, done.stderr
    assert "panicked" not in done.stderr, done.stderr
    if check is not None:
        assert check == done.code, done.stderr
    return done


class Done:
    """The exit code and the output of a command."""

    def __init__(self, process: subprocess.CompletedProcess[bytes]) -> None:
        self.code = process.returncode
        self.stdout = process.stdout.decode()
        self.stderr = process.stderr.decode()

    def errors(self) -> list[str]:
        """Returns the messages of errors."""
        return [line.removeprefix("error: ") for line in self.stderr.splitlines() if line.startswith("error: ")]

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows of the NDJSON on standard output, sorted by `row`."""
        return sorted((json.loads(line) for line in self.stdout.splitlines()), key=lambda row: int(row["row"]))


@contextmanager
def started(*arguments: str | Path, stdin: int | None = None) -> Iterator[subprocess.Popen[str]]:
    """Starts the command; it is killed at the end if it still runs."""
    with subprocess.Popen(
        [HEADGATE, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """Runs `headgate serve` at a free port; yields its URL, without a slash at the end."""
    with started("serve", "--port", "0", *flags) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line or (process.stderr and process.stderr.read())
        yield line.removeprefix("listening on ").strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_S) == 0


def printed_by(program: str, directory: Path) -> str:
    """Returns what a Python program prints; fails if it exits with an error or writes to standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


def wait_for_requests(server: str, number: int) -> None:
    """Polls the server until it has received this many requests."""
    wait_for(lambda: bool(stats(server)["requests"] >= number))


def wait_for(is_true: Callable[[], bool]) -> None:
    """Polls until the condition holds; another process has no event to wait for."""
    end = time.monotonic() + LONGEST_S
    while not is_true():
        assert time.monotonic() < end, "the condition does not come true"
        time.sleep(POLL_S)


def get(url: str) -> str:
    """Returns the body at `url`."""
    with urllib.request.urlopen(url, timeout=LONGEST_S) as response:  # noqa: S310 - our own server
        body: bytes = response.read()
        return body.decode()


def stats(server: str) -> dict[str, Any]:
    """Returns the counters of the server."""
    seen: dict[str, Any] = json.loads(get(f"{server}/stats"))
    return seen
