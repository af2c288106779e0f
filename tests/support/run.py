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
"""Of one command; below the timeout of a test, so that the command is named and not only the test."""
POLL_S = 0.002
"""How often a state of another process is looked at: without a pause, that would take a core from it."""


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
    """What a command has left behind."""

    def __init__(self, process: subprocess.CompletedProcess[bytes]) -> None:
        self.code = process.returncode
        self.stdout = process.stdout.decode()
        self.stderr = process.stderr.decode()

    def errors(self) -> list[str]:
        """The messages of errors."""
        return [line.removeprefix("error: ") for line in self.stderr.splitlines() if line.startswith("error: ")]

    def rows(self) -> list[dict[str, Any]]:
        """The NDJSON on standard output, by row."""
        return sorted((json.loads(line) for line in self.stdout.splitlines()), key=lambda row: int(row["row"]))


@contextmanager
def started(*arguments: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Starts the command; it is killed at the end if it still runs."""
    with subprocess.Popen([HEADGATE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(*flags: str) -> Iterator[str]:
    """Runs `headgate serve` at a free port; gives its URL, without a slash at the end."""
    with started("serve", "--port", "0", *flags) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("listening on "), line or (process.stderr and process.stderr.read())
        yield line.removeprefix("listening on ").strip()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_S) == 0


def printed_by(program: str, place: Path) -> str:
    """What a Python program prints. It has to end well, and to say nothing on standard error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=place,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout


def wait_for_requests(server: str, number: int) -> None:
    """Asks the server until it has seen so many."""
    wait_for(lambda: bool(stats(server)["requests"] >= number))


def wait_for(is_so: Callable[[], bool]) -> None:
    """Looks until it is so; there is no event to wait for in another process."""
    end = time.monotonic() + LONGEST_S
    while not is_so():
        assert time.monotonic() < end, "it does not come"
        time.sleep(POLL_S)


def get(url: str) -> str:
    """The body at `url`."""
    with urllib.request.urlopen(url, timeout=LONGEST_S) as response:  # noqa: S310 - our own server
        body: bytes = response.read()
        return body.decode()


def stats(server: str) -> dict[str, Any]:
    """What the server has seen."""
    seen: dict[str, Any] = json.loads(get(f"{server}/stats"))
    return seen
