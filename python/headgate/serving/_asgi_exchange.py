"""One request of an ASGI application and its response, over a connection.

The response is completed when the application has returned, so that a caller finds everything done that the application
does after it has sent its response, and gets an exception that it raises. Everything before the last piece is sent at
once, also the headers: shortly after them, if no body has come with them.
"""

import asyncio
from collections.abc import Iterable, Iterator
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from headgate._checks import kind_of
from headgate.serving._asgi_app import AsgiApp, Message
from headgate.serving._connection import ClientGone, Connection
from headgate.serving._http1 import LAST_CHUNK, RequestHead, chunk, head_bytes, may_have_body

VERSIONS: Final = {"version": "3.0", "spec_version": "2.3"}
"""With 2.3, as with uvicorn, sending to a client that has gone does nothing."""

_HEADERS_DELAY_S: Final = 0.01
"""Headers without a body wait for so long. An application that reports an error sends both, and then raises it."""
_PORTS: Final = {"http": 80, "https": 443}


def scope_of(app: AsgiApp, origin: str, head: RequestHead, state: dict[str, Any] | None) -> dict[str, Any]:
    """Returns the scope of a request."""
    path, _, query = head.target.partition("?")
    parts = urlsplit(origin)
    scope = {
        "type": "http",
        "asgi": dict(VERSIONS),
        "http_version": "1.1",
        "method": head.method,
        "scheme": parts.scheme,
        "path": unquote(path),
        "raw_path": path.encode("latin-1"),
        "query_string": query.encode("latin-1"),
        "root_path": app.root_path,
        "headers": [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in head.headers],
        "server": (parts.hostname or "", parts.port or _PORTS[parts.scheme]),
        "client": app.client,
        "extensions": {},
    }
    return scope if state is None else {**scope, "state": state}


class AsgiExchange:
    """The `receive` and `send` of one request."""

    def __init__(self, connection: Connection, method: str) -> None:
        self._connection = connection
        self._method = method
        self._is_request_complete = False
        self._ended = asyncio.Event()
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._headers_timer: asyncio.TimerHandle | None = None
        self._has_headers = True
        self._is_chunked = False
        # Bytes of the body that are still to come; `None` without a content-length.
        self._missing: int | None = None
        self.is_complete: bool = False
        """Whether the application has sent all of its response."""
        self._withheld = b""
        self._is_disconnected = False
        self.has_begun: bool = False
        """Whether something of the response was sent over the connection."""

    @property
    def defect(self) -> str:
        """What is missing in the response of an application that has returned; empty if nothing is."""
        if self.is_complete or self._is_disconnected:
            return ""
        return "without completing its response" if self._status else "without a response"

    def disconnect(self) -> None:
        """Notes that the client has gone."""
        self._is_disconnected = True
        self._cancel_timer()
        self._ended.set()

    async def receive(self) -> Message:
        """Waits for a piece of the request's body, or after its end for the end of the exchange."""
        if not self._is_request_complete and not self._ended.is_set():
            try:
                piece = await self._connection.read()
            except ClientGone:
                return {"type": "http.disconnect"}
            self._is_request_complete = not piece or self._connection.is_body_complete
            return {"type": "http.request", "body": piece, "more_body": not self._is_request_complete}
        await self._ended.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Sends a part of the response.

        Raises:
            RuntimeError: The message is not one that may come now, or the body has another length than its header says.
            TypeError: A value has the wrong type.
        """
        if self._is_disconnected:
            await asyncio.sleep(0)
            return
        kind = message["type"]
        if self.is_complete:
            raise RuntimeError(f"unexpected {kind!r}: the response is complete")
        if kind != ("http.response.body" if self._status else "http.response.start"):
            raise RuntimeError(f"unexpected {kind!r}: a response is http.response.start and then http.response.body")
        if self._status:
            await self._send_body(message)
        else:
            self._begin(message)

    async def finish(self) -> None:
        """Sends what was withheld until the application has returned."""
        self._cancel_timer()
        await self._connection.write(self._withheld)

    async def fail(self) -> None:
        """Sends a response with status 500, in place of a response of which nothing was sent."""
        self._cancel_timer()
        body = b"Internal Server Error"
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        start = head_bytes(HTTPStatus.INTERNAL_SERVER_ERROR, headers)
        await self._connection.write(start + (b"" if self._method == "HEAD" else body))

    def _begin(self, message: Message) -> None:
        status, headers = message["status"], list(_checked(message.get("headers", ())))
        if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 999:  # noqa: PLR2004 - of final responses
            raise RuntimeError(f"status must be a number from 200 to 999, not {status!r}")
        self._status = int(status)
        # Framing is ours.
        self._headers = [header for header in headers if header[0].lower() != b"transfer-encoding"]
        lengths = [value for name, value in headers if name.lower() == b"content-length"]
        self._missing = int(lengths[0]) if lengths else None
        if not may_have_body(self._method, self._status):
            self._missing = 0
        if self._missing != 0:
            self._headers_timer = asyncio.get_running_loop().call_later(_HEADERS_DELAY_S, self._send_headers)

    async def _send_body(self, message: Message) -> None:
        body, is_last = bytes(message.get("body", b"")), not message.get("more_body", False)
        if not may_have_body(self._method, self._status):
            body = b""
        elif self._missing is not None:
            self._missing -= len(body)
            if self._missing < 0 or (is_last and self._missing):
                raise RuntimeError(f"the body of the response is not as long as its content-length: {-self._missing:+}")
        data = self._take_headers(is_whole=is_last, length=len(body)) + self._coded(body, is_last=is_last)
        if is_last:
            self.is_complete = True
            self._ended.set()
        if is_last or self._missing == 0:
            self._withheld += data
        elif data:
            self.has_begun = True
            try:
                await self._connection.write(data)
            except ClientGone:
                self.disconnect()
                # An application that never stops sending must not keep the loop from ending it.
                await asyncio.sleep(0)

    def _send_headers(self) -> None:
        self.has_begun = True
        self._connection.write_soon(self._take_headers(is_whole=False, length=0))

    def _take_headers(self, *, is_whole: bool, length: int) -> bytes:
        """Returns the status line and headers the first time. `is_whole`: the body comes with them and is so long."""
        self._cancel_timer()
        if not self._has_headers:
            return b""
        self._has_headers = False
        headers = self._headers
        if self._missing is None:
            self._is_chunked = not is_whole
            length_or_chunks = (b"content-length", b"%d" % length), (b"transfer-encoding", b"chunked")
            headers = [*headers, length_or_chunks[self._is_chunked]]
        return head_bytes(self._status, headers)

    def _coded(self, body: bytes, *, is_last: bool) -> bytes:
        if not self._is_chunked:
            return body
        return (chunk(body) if body else b"") + (LAST_CHUNK if is_last else b"")

    def _cancel_timer(self) -> None:
        if self._headers_timer is not None:
            self._headers_timer.cancel()
            self._headers_timer = None


def _checked(headers: Iterable[Any]) -> Iterator[tuple[bytes, bytes]]:
    for name, value in headers:
        if not isinstance(name, bytes) or not isinstance(value, bytes):
            raise TypeError(f"headers must be bytes, not {kind_of(name)} and {kind_of(value)}")
        yield name, value
