"""The server's side of HTTP/1.1, without I/O. The other end is headgate's engine, which sends valid requests."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final, NamedTuple

_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
LAST_CHUNK: Final = b"0\r\n\r\n"
"""Ends a body in the chunked transfer coding."""

_WITHOUT_BODY: Final = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})


class RequestHead(NamedTuple):
    """The beginning of a request.

    Attributes:
        method: The method.
        target: The path and the query, as they were sent.
        headers: The headers; bytes that are not ASCII are Latin-1.
    """

    method: str
    target: str
    headers: list[tuple[str, str]]

    @property
    def content_length(self) -> int:
        """The length of the body, if it is not chunked."""
        return next((int(value) for name, value in self.headers if name.lower() == "content-length"), 0)

    @property
    def is_chunked(self) -> bool:
        """Whether the body has the chunked transfer coding."""
        return any(name.lower() == "transfer-encoding" for name, _ in self.headers)


class RequestParser:
    """Parses the requests of one connection, one after another: a head, and then the pieces of its body."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        # Bytes of the body, or of its chunk, that are still to come.
        self._missing = 0
        self._is_chunked = False
        self._is_in_body = False

    @property
    def buffered(self) -> int:
        """The number of bytes that were not taken."""
        return len(self._buffer)

    @property
    def is_body_complete(self) -> bool:
        """Whether all of the body was taken; of a chunked one, this is known after its end was read."""
        return not self._is_in_body or not (self._is_chunked or self._missing)

    def feed(self, data: bytes) -> None:
        """Adds received bytes."""
        self._buffer += data

    def next_head(self) -> RequestHead | None:
        """Returns the head of the next request once it is complete."""
        end = self._buffer.find(_HEAD_END)
        if end < 0:
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + len(_HEAD_END)]
        method, target, _ = first.split(" ", 2)
        headers = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        head = RequestHead(method, target, headers)
        self._is_chunked = head.is_chunked
        self._missing = 0 if head.is_chunked else head.content_length
        self._is_in_body = True
        return head

    def next_piece(self) -> bytes | None:
        """Returns bytes of the body that have come: none at its end; `None` if more must be fed first."""
        if self._is_in_body and self._is_chunked and not self._missing and not self._begin_chunk():
            return None
        if not self._is_in_body or not self._missing:
            self._is_in_body = False
            return b""
        piece = bytes(self._buffer[: self._missing])
        if not piece:
            return None
        del self._buffer[: len(piece)]
        self._missing -= len(piece)
        return piece

    def _begin_chunk(self) -> bool:
        """Reads the size of the next chunk, and after the last one the trailers. Returns whether they are complete."""
        # The line end after a chunk is still there.
        start = len(_LINE_END) if self._buffer.startswith(_LINE_END) else 0
        end = self._buffer.find(_LINE_END, start)
        if end < 0:
            return False
        size = int(self._buffer[start:end].partition(b";")[0], 16)
        if not size:
            after = self._buffer.find(_HEAD_END, end)
            if after < 0:
                return False
            del self._buffer[: after + len(_HEAD_END)]
            self._is_in_body = False
            return True
        del self._buffer[: end + len(_LINE_END)]
        self._missing = size
        return True


def may_have_body(method: str, status: int) -> bool:
    """Returns whether a response with this status to this method has a body."""
    return method != "HEAD" and status not in _WITHOUT_BODY


def head_bytes(status: int, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Returns the head of a response."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    lines = [f"HTTP/1.1 {status} {phrase}".encode(), *(b"%b: %b" % header for header in headers), b"", b""]
    return _LINE_END.join(lines)


def chunk(piece: bytes) -> bytes:
    """Returns a piece of a body in the chunked transfer coding; it must not be empty, which would end the body."""
    return b"%x\r\n%b\r\n" % (len(piece), piece)
