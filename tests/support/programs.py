"""Finds, starts, awaits and ends other programs on loopback; a test is skipped if its program is missing."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

READY_S: Final = 30
"""Far longer than any program takes to start; only a failing test waits so long."""

# The PATH of root may lack these directories.
_PLACES: Final = ("/usr/sbin", "/usr/local/bin", "/usr/local/go/bin")


def program(name: str, package: str) -> str:
    """Returns the path of a program, or skips the test with the Debian package that has it."""
    found = shutil.which(name) or shutil.which(name, path=":".join(_PLACES))
    if found is None:
        pytest.skip(f"needs {name}: apt-get install {package}")
    return found


def free_port() -> int:
    """Returns a port that no process uses at the moment."""
    (port,) = free_ports(1)
    return port


def free_ports(count: int) -> list[int]:
    """Returns different ports that no process uses at the moment."""
    with ExitStack() as stack:
        servers = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        ports: list[int] = [server.getsockname()[1] for server in servers]
    return ports


@contextmanager
def running(
    command: Sequence[str | Path],
    *,
    log: Path,
    ports: Sequence[int] = (),
    environment: Mapping[str, str] | None = None,
) -> Iterator[subprocess.Popen[bytes]]:
    """Runs a program until the block is left; it is ready when all `ports` accept connections.

    Its standard output and standard error go to `log`.
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
    """Polls the port: another process has no event to wait for."""
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
    """Waits for the first line of the log that begins with `start`, and returns the rest of it."""
    end = time.monotonic() + READY_S
    while True:
        for line in log.read_text().splitlines(keepends=True):
            if line.startswith(start) and line.endswith("\n"):
                return line.removeprefix(start).strip()
        assert process.poll() is None, f"it ended: {log.read_text()}"
        assert time.monotonic() < end, f"it does not begin: {log.read_text()}"
