"""A server that accepts tokens for as long as a test says."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

_LOOK_FOR_END_S: Final = 0.01


class TokenServer:
    """A server that responds with 200 to requests with a valid token, and otherwise with 401 or another status.

    Attributes:
        url: Its URL, without a slash at the end.
        valid: The values of `Authorization` that it accepts.
        refusal: The status of other requests.
        requests: Method, path, token and status of each request.
        uses: After this many accepted requests, `expired` is called, which may change `valid`.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.valid: set[str] = set()
        self.refusal = 401
        self.requests: list[tuple[str, str, str | None, int]] = []
        self.uses = 0
        self.lock = threading.Lock()

    def statuses(self) -> list[int]:
        """Returns the statuses of all requests."""
        return [status for *_, status in self.requests]

    def expired(self) -> None:
        """Changes what is valid. A test replaces it."""

    def respond(self, method: str, path: str, token: str | None) -> int:
        """Records a request, and returns its status."""
        with self.lock:
            status = 200 if token in self.valid else self.refusal
            self.requests.append((method, path, token, status))
            if status == 200 and self.uses and self.statuses().count(200) % self.uses == 0:
                self.expired()
            return status


@contextmanager
def token_server() -> Iterator[TokenServer]:
    """Runs such a server."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 65_536  # so that a response is one packet

        def do_GET(self) -> None:  # the name that http.server looks for
            self.rfile.read(int(self.headers.get("Content-Length", "0")))
            status = served.respond(self.command, self.path, self.headers.get("Authorization"))
            body = b'{"value": 1}'
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            with suppress(ConnectionError):  # the client may have been killed
                self.end_headers()
                self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - as above

        def log_message(self, *_: object) -> None:
            """Logs nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 512
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    served = TokenServer(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, args=[_LOOK_FOR_END_S])
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
