"""A small HTTP server, for readers of what a job does.

Each reader gets a thread, of which there are few, and little time. A reader that is gone or late is no error.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socket import AF_INET, AF_INET6, SHUT_RDWR, socket
from socketserver import TCPServer
from threading import Event, Thread
from typing import Any, ClassVar, Final

from headgate._errors import UsageError
from headgate._message import Mention

MAX_READERS: Final = 8
"""Readers that are served at a time; others wait."""

READER_TIMEOUT_S: Final = 2.0
"""How long a reader may take for its request and the response."""

_POLL_S: Final = 0.5
"""How soon the server notices its end, and that of the time of a reader."""


class LocalServer(TCPServer):
    """Listens at an address from its creation on.

    Attributes:
        root: The URL of the server without a slash at its end, with the port that was found free if none was named.
    """

    allow_reuse_address = True
    request_queue_size = 16
    timeout: float | None = _POLL_S
    reader_timeout_s: float = READER_TIMEOUT_S

    def __init__(self, address: str, handler: type["LocalRequest"], option: str) -> None:
        """Listens at the address, which is the value of an option.

        Raises:
            UsageError: It can't listen at this address.
        """
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        self.address_family: int = AF_INET6 if ":" in host else AF_INET
        self._readers: dict[socket, float] = {}
        self._reader_ended = Event()
        try:
            super().__init__((host, int(port)), handler)
        except (OSError, UnicodeError) as error:
            why = f": can't listen at {address}: {getattr(error, 'strerror', None) or error}"
            raise UsageError((Mention(option), why)) from None
        bound_host, bound_port = self.server_address[:2]
        shown = f"[{bound_host!s}]" if self.address_family == AF_INET6 else str(bound_host)
        self.root: str = f"http://{shown}:{bound_port}"

    def serve_until(self, is_over: Callable[[], bool]) -> None:
        """Serves readers until `is_over` returns true."""
        while not is_over():
            self._drop_late_readers()
            if len(self._readers) < MAX_READERS:
                self.handle_request()
            elif self._reader_ended.wait(_POLL_S):
                self._reader_ended.clear()

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as in socketserver
        """Serves a reader in a thread of its own."""
        thread = Thread(target=self._serve_reader, args=(request, client_address), daemon=True)
        self._readers[request] = time.monotonic() + self.reader_timeout_s
        try:
            thread.start()
        except RuntimeError:  # there are too many threads
            del self._readers[request]
            self.shutdown_request(request)

    def _serve_reader(self, request: socket, client_address: object) -> None:
        try:
            self.finish_request(request, client_address)
        except OSError:
            pass  # a reader that is gone, or whose time was over, is no error of the job
        finally:
            del self._readers[request]
            self.shutdown_request(request)
            self._reader_ended.set()

    def _drop_late_readers(self) -> None:
        """Ends the connections of readers whose time is over; their threads end with them."""
        now = time.monotonic()
        for reader, until in list(self._readers.items()):
            if until <= now:
                with suppress(OSError):
                    reader.shutdown(SHUT_RDWR)


class LocalRequest(BaseHTTPRequestHandler):
    """A request, after whose response the connection is closed."""

    server_version = "headgate"
    sys_version = ""
    timeout: ClassVar[float | None] = READER_TIMEOUT_S

    def do_GET(self) -> None:
        self.reply()

    def reply(self) -> None:
        """Responds to the request."""
        raise NotImplementedError

    def respond(self, status: HTTPStatus, content_type: str, text: str, **headers: str) -> None:
        """Sends a response; an underscore in the name of a header stands for a hyphen."""
        body = text.encode(errors="replace")
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as in http.server
        """Logs nothing."""
