"""Servers in this process, for responses that the test server does not send."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_LOOK_FOR_END_S: Final = 0.01


class Origin:
    """A server whose responses change while it runs.

    Attributes:
        url: Its URL, without a slash at the end.
        body: The body of each response.
        statuses: The statuses of paths that do not have 200.
        held: Paths that get their response only once `released` is set.
        requests: Method, path, the header `X-Tenant` and body of each request.
        keys: The header `Idempotency-Key` of each request, by its path.
        connections: The number of connections whose requests may still come.
    """

    def __init__(self, url: str, body: bytes) -> None:
        self.url = url
        self.body = body
        self.statuses: dict[str, int] = {}
        self.held: set[str] = set()
        self.released = threading.Event()
        self.keys: dict[str, list[str | None]] = {}
        self.requests: list[tuple[str, str, str | None, bytes]] = []
        self.connections = 0


@contextmanager
def changing(body: bytes = b"hello", *, first: Callable[[], object] | None = None) -> Iterator[Origin]:
    """Runs a server that responds as its `Origin` says at the moment; `first` is called before the first response."""
    once, counting = threading.Lock(), threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def handle(self) -> None:
            with counting:
                origin.connections += 1
            try:
                super().handle()
            finally:
                with counting:
                    origin.connections -= 1

        def do_GET(self) -> None:  # the name that http.server looks for
            sent = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            if first is not None and once.acquire(blocking=False):
                first()
            origin.keys.setdefault(self.path, []).append(self.headers.get("Idempotency-Key"))
            origin.requests.append((self.command, self.path, self.headers.get("X-Tenant"), sent))
            if self.path in origin.held:
                origin.released.wait()
            self.send_response(origin.statuses.get(self.path, 200))
            self.send_header("Content-Length", str(len(origin.body)))
            with suppress(ConnectionError):  # the client may have been killed
                self.end_headers()
                self.wfile.write(origin.body)

        do_POST = do_GET  # noqa: N815 - as above

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # the client retries a connection beyond these only after a second

    server = Server(("127.0.0.1", 0), Handler)
    origin = Origin(f"http://127.0.0.1:{server.server_port}", body)
    thread = threading.Thread(target=server.serve_forever, args=[_LOOK_FOR_END_S])
    thread.start()
    try:
        yield origin
    finally:
        origin.released.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def responding(body: bytes) -> Iterator[str]:
    """Runs a server that responds to every GET with `body`; yields its URL, without a slash at the end."""
    with changing(body) as origin:
        yield origin.url
