"""Programs of others that tests run on loopback: found or skipped, started, waited for, ended."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

READY_S: Final = 30
"""Far beyond what any of them takes to start; only a failing test waits for it."""

# Root's own PATH may lack them.
_PLACES: Final = ("/usr/sbin", "/usr/local/bin", "/usr/local/go/bin")


def program(name: str, package: str) -> str:
    """Where a program is; the test is skipped if it is nowhere, and says which package of Debian has it."""
    found = shutil.which(name) or shutil.which(name, path=":".join(_PLACES))
    if found is None:
        pytest.skip(f"needs {name}: apt-get install {package}")
    return found


def free_port() -> int:
    """A port that nobody has at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as asked:
        port: int = asked.getsockname()[1]
    return port


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    ports: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program until the block is left; it has begun when all `ports` take connections.

    What it says on standard output and standard error is in `log`.
    """
    with (
        log.open("wb") as written,
        subprocess.Popen(command, stdout=written, stderr=subprocess.STDOUT, env=environment) as process,
    ):
        try:
            for port in ports:
                _wait_until_ready(process, port, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(READY_S)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait_until_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """There is no event to wait for in another process: it is asked again and again."""
    end = time.monotonic() + READY_S
    while True:
        assert process.poll() is None, f"it ended: {log.read_text()}"
        assert time.monotonic() < end, f"it takes no connections: {log.read_text()}"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            continue
        return


def wait_for_line(process: subprocess.Popen[bytes], log: Path, start: str) -> str:
    """The first line that begins so, without its beginning."""
    end = time.monotonic() + READY_S
    while True:
        for line in log.read_text().splitlines(keepends=True):
            if line.startswith(start) and line.endswith("\n"):
                return line.removeprefix(start).strip()
        assert process.poll() is None, f"it ended: {log.read_text()}"
        assert time.monotonic() < end, f"it does not begin: {log.read_text()}"
