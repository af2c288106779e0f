"""The interface of servers, which count requests, and `headgate serve` as one of them. `nginx.py` is the other."""

import json
import resource
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from harness import processes

BODY: Final = b"Hello, World!"
"""The body of every response of either server."""
SETTLED_S: Final = 60.0
_POLL_S: Final = 0.05
_TAIL: Final = 400
"""Characters of a log in messages."""
_SPARE_FILES: Final = 100
"""Files that a client or server opens besides its connections."""


@dataclass(frozen=True, slots=True)
class Counted:
    """The counts of a server since its start, without the requests for these counts."""

    requests: int
    connections: int
    open_now: int


class Server(Protocol):
    """A running server."""

    @property
    def url(self) -> str:
        """The URL, without a slash at the end."""

    @property
    def pid(self) -> int:
        """The ID of its process."""

    def counted(self) -> Counted:
        """Returns the counts so far."""


class ServerError(Exception):
    """A server can't be started or used."""


def raise_open_files(connections: int) -> None:
    """Raises the limit of open files, which server and clients inherit, because not every client raises its own.

    Raises:
        ServerError: The hard limit is too low.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ServerError(f"{wanted:,} open files are needed and {hard:,} are allowed: raise ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def settle(server: Server) -> Counted:
    """Waits until the previous client's connections are closed, because closing thousands takes the server's time."""
    deadline = time.monotonic() + SETTLED_S
    while (counted := server.counted()).open_now:
        if time.monotonic() > deadline:
            raise ServerError(f"{counted.open_now:,} connections are still open {SETTLED_S:.0f} s after their client")
        time.sleep(_POLL_S)
    return counted


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path, *, name: str, ready_s: float) -> None:
    """Waits until a server listens at a local port.

    Raises:
        ServerError: It has ended, or does not listen in time.
    """
    deadline = time.monotonic() + ready_s
    while True:
        if process.poll() is not None:
            raise ServerError(f"{name} has not started: {log.read_text()[-_TAIL:].strip()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > deadline:
            raise ServerError(f"{name} does not listen after {ready_s:.0f} s")
        time.sleep(_POLL_S)


@dataclass(slots=True)
class LocalServer:
    """`headgate serve` on one core."""

    url: str
    pid: int
    port: int
    own_requests: int = 0

    def counted(self) -> Counted:
        """Returns the counts of `/stats`, which counts itself as a connection only."""
        seen = self.stats()
        return Counted(seen["requests"], seen["connections_accepted"] - self.own_requests, seen["connections_open"] - 1)

    def most_in_progress(self) -> int:
        """Returns the largest number of requests that were ever in progress."""
        most: int = self.stats()["max_requests_in_progress"]
        return most

    def stats(self) -> dict[str, Any]:
        """Returns all statistics of the server."""
        self.own_requests += 1
        seen: dict[str, Any] = json.loads(get(f"{self.url}/stats"))
        return seen


@contextmanager
def delay_server(program: Path, core: int, delays: str) -> Iterator[LocalServer]:
    """Runs `headgate serve`; every path responds with `BODY` after whole seconds drawn evenly from `delays`."""
    with local_server(program, core, "--delay-whole", delays) as server:
        yield server


@contextmanager
def many_hosts_server(program: Path, core: int) -> Iterator[LocalServer]:
    """Runs `headgate serve` at every loopback address; every path responds with `BODY` at once."""
    with local_server(program, core, "--host", "0.0.0.0") as server:  # noqa: S104 - a route to it is the bench's own
        yield server


@contextmanager
def local_server(program: Path, core: int, *flags: str) -> Iterator[LocalServer]:
    """Runs `headgate serve` with these flags, on one core."""
    with processes.pinned(core):
        command = [str(program), "serve", "--port", "0", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with terminated_at_end(process):
        line = process.stdout.readline() if process.stdout else ""
        if not line.startswith("listening on "):
            raise ServerError("headgate serve has not started: see above")
        port = int(line.rpartition(":")[2])
        yield LocalServer(f"http://127.0.0.1:{port}", process.pid, port)


def get(url: str) -> str:
    """Returns the body at `url`."""
    # nginx serves a new connection only after 10,000 busy ones.
    with urllib.request.urlopen(url, timeout=SETTLED_S) as response:  # noqa: S310 - our own server
        text: bytes = response.read()
        return text.decode()


@contextmanager
def terminated_at_end(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    """Terminates the process at the end of the block, and waits for it."""
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()
