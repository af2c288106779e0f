"""The two servers: nginx, which answers at once, and `headgate serve`, which answers late. Each counts what it sees."""

import json
import resource
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from harness import processes

BODY: Final = b"Hello, World!"
"""Of every answer of either server."""
_READY_S: Final = 10.0
_SETTLED_S: Final = 60.0
_POLL_S: Final = 0.05
_SPARE_FILES: Final = 100
"""A client or server opens some besides its connections."""

# One process to pin, to weigh and to stop; it never closes a connection by itself.
_CONFIG: Final = """\
daemon off;
master_process off;
pid {directory}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 18000; multi_accept on; }}
http {{
    access_log off;
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    fastcgi_temp_path {directory}/fastcgi;
    uwsgi_temp_path {directory}/uwsgi;
    scgi_temp_path {directory}/scgi;
    server {{
        listen 127.0.0.1:{port} backlog=65535;
        location / {{ default_type text/plain; return 200 "{body}"; }}
        location = /status {{ stub_status; }}
    }}
}}
"""


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
    deadline = time.monotonic() + _SETTLED_S
    while (counted := server.counted()).open_now:
        if time.monotonic() > deadline:
            raise ServerError(f"{counted.open_now:,} connections are still open {_SETTLED_S:.0f} s after their client")
        time.sleep(_POLL_S)
    return counted


@dataclass(slots=True)
class Nginx:
    """See `nginx`."""

    url: str
    pid: int
    asked: int = 0

    def counted(self) -> Counted:
        """From `stub_status`, which counts itself: as requests, and as one open connection."""
        words = _get(f"{self.url}/status").split()
        self.asked += 1
        accepted, requests = int(words[7]), int(words[9])
        return Counted(requests - self.asked, accepted - self.asked, int(words[2]) - 1)


@dataclass(slots=True)
class LocalServer:
    """`headgate serve` on one core."""

    url: str
    pid: int
    port: int
    asked: int = 0

    def counted(self) -> Counted:
        """From `/stats`, which counts itself as a connection only."""
        seen = self._stats()
        return Counted(seen["requests"], seen["connections_accepted"] - self.asked, seen["connections_open"] - 1)

    def most_in_progress(self) -> int:
        """The most requests there ever were at once."""
        return self._stats()["max_requests_in_progress"]

    def _stats(self) -> dict[str, int]:
        self.asked += 1
        seen: dict[str, int] = json.loads(_get(f"{self.url}/stats"))
        return seen


def nginx_program() -> str:
    """Where it is.

    Raises:
        ServerError: It is not installed.
    """
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if found is None:
        raise ServerError("nginx is what the clients are measured against, and there is none; run: apt install nginx")
    return found


@contextmanager
def nginx(core: int) -> Iterator[Nginx]:
    """One process on one core; every path answers `BODY` at once."""
    with tempfile.TemporaryDirectory(prefix="headgate-bench-nginx-") as directory:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        config = Path(directory, "nginx.conf")
        config.write_text(_CONFIG.format(directory=directory, port=port, body=BODY.decode()))
        log = Path(directory, "errors")
        command = [nginx_program(), "-p", directory, "-c", str(config), "-e", str(log)]
        with log.open("w") as errors, processes.pinned(core):
            process = subprocess.Popen(command, stderr=errors)
        with _ended_at_last(process):
            server = Nginx(f"http://127.0.0.1:{port}", process.pid)
            _wait_for(port, process, log)
            yield server


@contextmanager
def delay_server(program: Path, core: int, delays: str) -> Iterator[LocalServer]:
    """`headgate serve`; every path answers `BODY` after whole seconds drawn evenly from `delays`."""
    with _local_server(program, core, "--delay-whole", delays) as server:
        yield server


@contextmanager
def many_hosts_server(program: Path, core: int) -> Iterator[LocalServer]:
    """`headgate serve` at every address of the loopback network; every path answers `BODY` at once."""
    with _local_server(program, core, "--host", "0.0.0.0") as server:  # noqa: S104 - a route to it is the bench's own
        yield server


@contextmanager
def _local_server(program: Path, core: int, *flags: str) -> Iterator[LocalServer]:
    with processes.pinned(core):
        command = [str(program), "serve", "--port", "0", *flags]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with _ended_at_last(process):
        line = process.stdout.readline() if process.stdout else ""
        if not line.startswith("listening on "):
            raise ServerError("headgate serve has not started: see above")
        port = int(line.rpartition(":")[2])
        yield LocalServer(f"http://127.0.0.1:{port}", process.pid, port)


def _get(url: str) -> str:
    # nginx gives a new connection its turn after 10,000 busy ones
    with urllib.request.urlopen(url, timeout=_SETTLED_S) as response:  # noqa: S310 - our own server
        text: bytes = response.read()
        return text.decode()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        if process.poll() is not None:
            raise ServerError(f"nginx has not started (it needs its stub_status module): {log.read_text().strip()}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if time.monotonic() > deadline:
            raise ServerError(f"nginx does not listen after {_READY_S:.0f} s")
        time.sleep(_POLL_S)


@contextmanager
def _ended_at_last(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        if process.stdout:
            process.stdout.close()
