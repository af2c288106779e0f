"""A server that records how bodies of requests arrive, and responds as its path says."""

import contextlib
import re
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from support.run import LONGEST_S

_STATUS: Final = re.compile(r"/(?:status|early|redirect)/(\d+)")


@dataclass(slots=True)
class Received:
    """A request as it has arrived so far.

    Attributes:
        body_bytes: The length of the body, as far as it has arrived.
        chunks: The sizes of the chunks of a chunked body.
        is_complete: Whether the whole body has arrived; `None` while more may come.
    """

    method: str
    path: str
    headers: dict[str, str]
    pieces: list[bytes] = field(default_factory=list)
    chunks: list[int] = field(default_factory=list)
    is_complete: bool | None = None
    body_bytes: int = 0

    def add(self, piece: bytes) -> None:
        """Adds a piece of the body, which is only counted of a request to `/drain`."""
        self.body_bytes += len(piece)
        if self.path != "/drain":
            self.pieces.append(piece)

    @property
    def body(self) -> bytes:
        """The body, as far as it has arrived."""
        return b"".join(self.pieces)


class Receiver:
    """What has arrived.

    Attributes:
        url: Its URL, without a slash at the end.
        requests: All requests, in the order in which they have arrived.
        may_read: While it is not set, bodies of requests to `/slow` are not read.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.requests: list[Received] = []
        self.may_read = threading.Event()

    def until(self, condition: Callable[[], bool]) -> None:
        """Waits until a condition is true."""
        deadline = time.monotonic() + LONGEST_S
        while not condition():
            assert time.monotonic() < deadline, self.requests
            time.sleep(0.002)

    @property
    def last(self) -> Received:
        """The last request, once it is known whether it is complete."""
        self.until(lambda: bool(self.requests) and self.requests[-1].is_complete is not None)
        return self.requests[-1]


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    request_queue_size = 1024
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.receiver = Receiver(f"http://127.0.0.1:{self.server_address[1]}")


class _Handler(socketserver.StreamRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):
            while self._exchange():
                pass

    def _exchange(self) -> bool:
        line = self.rfile.readline().decode()
        if not line:
            return False
        headers = {}
        while header := self.rfile.readline().decode().strip():
            name, _, value = header.partition(": ")
            headers[name.lower()] = value
        method, path, _ = line.split()
        request = Received(method, path, headers)
        self.server.receiver.requests.append(request)
        try:
            return self._respond(request)
        finally:
            request.is_complete = bool(request.is_complete)

    def _respond(self, request: Received) -> bool:
        path = request.path
        status = int(found[1]) if (found := _STATUS.match(path)) else 200
        if path == "/slow":
            self.server.receiver.may_read.wait(LONGEST_S)
        if path == "/duplex":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in self._body(request):
            if path == "/duplex":
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            elif path == "/closing":
                return False
            elif path.startswith("/early"):
                break
        if path == "/duplex":
            self.wfile.write(b"0\r\n\r\n")
            return False
        earlier = [each for each in self.server.receiver.requests if each.path == path]
        if path.startswith("/status") and len(earlier) > 1:
            status = 200
        lines = [f"HTTP/1.1 {status} Status", "Content-Length: 4"]
        lines += ["Location: /done"] * path.startswith("/redirect") + ["Connection: close"] * path.startswith("/early")
        self.wfile.write("\r\n".join([*lines, "", "done"]).encode())
        return not path.startswith(("/early", "/once"))

    def _body(self, request: Received) -> Iterator[bytes]:
        if request.headers.get("transfer-encoding") == "chunked":
            while line := self.rfile.readline():
                size = int(line, 16)
                piece = self.rfile.read(size)
                if self.rfile.read(2) != b"\r\n":
                    return
                if size == 0:
                    request.is_complete = True
                    return
                request.chunks.append(size)
                request.add(piece)
                yield piece
            return
        missing = int(request.headers.get("content-length", 0))
        while missing and (piece := self.rfile.read1(min(missing, 65_536))):
            missing -= len(piece)
            request.add(piece)
            if missing == 0:
                request.is_complete = True
            yield piece
        request.is_complete = missing == 0


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Runs the server. It responds after the whole request: with 200, or as the path says.

    `/status/503` has that status, but only for the first request. `/redirect/307` leads to `/done`.
    `/early/413` responds after the first bytes of the body, and `/closing` closes the connection after them. `/once`
    closes the connection after its response, without a word. `/duplex` sends each chunk back as it arrives.
    """

    with _Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.receiver
        finally:
            server.receiver.may_read.set()
            server.shutdown()
            thread.join()
