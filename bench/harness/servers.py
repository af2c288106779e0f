"""What a server is to a scenario, which counts what it sees; and `headgate serve` as one. `nginx.py` is the other."""

import json
import resource
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
"""Of every answer of either server."""
SETTLED_S: Final = 60.0
_POLL_S: Final = 0.05
_SPARE_FILES: Final = 100
"""A client or server opens some besides its connections."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What a server has seen since it was started; asking it is left out."""

    requests: int
    connections: int
    open_now: int


class Server(Protocol):
    """A running server."""

    @property
    def url(self) -> str:
        """Without a slash at the end."""

    @property
    def pid(self) -> int:
        """Of its one process."""

    def counted(self) -> Counted:
        """What it has seen so far."""


class ServerError(Exception):
    """A server cannot be had."""


def raise_open_files(connections: int) -> None:
    """Server and clients inherit it; not every client raises its own.

    Raises:
        ServerError: So many are not allowed.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + _SPARE_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise ServerError(f"{wanted:,} open files are needed and {hard:,} are allowed: raise ulimit -Hn")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))


def settle(server: Server) -> Counted:
    """Waits until the last client's connections are closed, because closing thousands takes the server's time."""
    deadline = time.monotonic() + SETTLED_S
    while (counted := server.counted()).open_now:
        if time.monotonic() > deadline:
            raise ServerError(f"{counted.open_now:,} connections are still open {SETTLED_S:.0f} s after their client")
        time.sleep(_POLL_S)
    return counted


@dataclass(slots=True)
class LocalServer:
    """`headgate serve` on one core."""

    url: str
    pid: int
    port: int
    asked: int = 0

    def counted(self) -> Counted:
        """From `/stats`, which counts itself as a connection only."""
        seen = self.stats()
        return Counted(seen["requests"], seen["connections_accepted"] - self.asked, seen["connections_open"] - 1)

    def most_in_progress(self) -> int:
        """The most requests there ever were at once."""
        most: int = self.stats()["max_requests_in_progress"]
        return most

    def stats(self) -> dict[str, Any]:
        """All that it has seen."""
        self.asked += 1
        seen: dict[str, Any] = json.loads(get(f"{self.url}/stats"))
        return seen


@contextmanager
def delay_server(program: Path, core: int, delays: str) -> Iterator[LocalServer]:
    """`headgate serve`; every path answers `BODY` after whole seconds drawn evenly from `delays`."""
    with local_server(program, core, "--delay-whole", delays) as server:
        yield server


@contextmanager
def many_hosts_server(program: Path, core: int) -> Iterator[LocalServer]:
    """`headgate serve` at every address of the loopback network; every path answers `BODY` at once."""
    with local_server(program, core, "--host", "0.0.0.0") as server:  # noqa: S104 - a route to it is the bench's own
        yield server


@contextmanager
def local_server(program: Path, core: int, *flags: str) -> Iterator[LocalServer]:
    """`headgate serve` with these flags, on one core."""
    with processes.pinned(core):
        command = [str(program), "serve", "--port", "0", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with ended_at_last(process):
        line = process.stdout.readline() if process.stdout else ""
        if not line.startswith("listening on "):
            raise ServerError("headgate serve has not started: see above")
        port = int(line.rpartition(":")[2])
        yield LocalServer(f"http://127.0.0.1:{port}", process.pid, port)


def get(url: str) -> str:
    """The body at `url`."""
    # nginx gives a new connection its turn after 10,000 busy ones
    with urllib.request.urlopen(url, timeout=SETTLED_S) as response:  # noqa: S310 - our own server
        text: bytes = response.read()
        return text.decode()


@contextmanager
def ended_at_last(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    """At the end of the block it is told to end, and waited for."""
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()
