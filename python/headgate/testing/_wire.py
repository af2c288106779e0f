"""Requests and answers as bytes: HTTP/1.1, as the engine of the same process speaks it."""

from typing import Final

from headgate.client._headers import Headers
from headgate.testing._answer import Answer
from headgate.testing._mock_request import MockRequest

MAX_BODY_BYTES: Final = 1024 * 1024 * 1024
"""A request with a longer body is refused: it is in memory."""

_FRAMING: Final = ("content-length", "transfer-encoding")
_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304


class TooLarge(Exception):  # noqa: N818 - what happened
    """A body is longer than there is memory for."""


class RequestReader:
    """Requests of one connection, one after another."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._buffer = bytearray()
        self._head: tuple[str, str, Headers] | None = None
        self._missing = 0

    def feed(self, data: bytes) -> None:
        """Takes what came."""
        self._buffer += data

    def take(self) -> MockRequest | None:
        """The next request, if it came whole.

        Raises:
            TooLarge: Its body is.
        """
        if self._head is None and not self._take_head():
            return None
        if self._head is None or len(self._buffer) < self._missing:
            return None
        method, target, headers = self._head
        body = bytes(self._buffer[: self._missing])
        del self._buffer[: self._missing]
        self._head = None
        return MockRequest(method, self._origin + target, headers, body)

    def _take_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        method, target, _ = first.split(" ", 2)
        pairs = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        headers = Headers(pairs)
        self._missing = int(headers.get("content-length", "0"))
        if self._missing > MAX_BODY_BYTES:
            raise TooLarge
        self._head = method, target, headers
        return True


def answer_bytes(answer: Answer, method: str) -> tuple[bytes, bool]:
    """An answer to a request with that method, and whether the connection ends with it."""
    has_body = answer.status not in {_NO_CONTENT, _NOT_MODIFIED}
    lines = [f"HTTP/1.1 {answer.status} {answer.phrase}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.multi_items()]
    if has_body and not any(name in answer.headers for name in _FRAMING):
        lines.append(f"Content-Length: {len(answer.content)}")
    head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
    body = answer.content if has_body and method != "HEAD" else b""
    ends = answer.headers.get("connection", "").lower() == "close"
    if answer.cut_after is not None:
        return head + body[: answer.cut_after], True
    return head + body, ends
