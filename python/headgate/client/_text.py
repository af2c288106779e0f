"""How the text of a body is encoded, and a body that arrives in pieces as bytes, text and lines. Nothing here waits."""

import codecs
import re
from collections.abc import Mapping
from email.message import Message as MediaType
from typing import Final

from headgate._checks import kind_of

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MARK_BYTES: Final = 4
"""The longest byte order mark."""


def told_encoding(headers: Mapping[str, str]) -> str | None:
    """The encoding that the content-type names, if it names one that there is."""
    media_type = MediaType()
    media_type["content-type"] = headers.get("content-type", "")
    told = media_type.get_param("charset")
    if isinstance(told, str):
        try:
            return codecs.lookup(told.strip("'\" ")).name
        except LookupError:
            pass
    return None


def marked_encoding(beginning: bytes) -> str:
    """The encoding that a byte order mark tells of, or else UTF-8."""
    return next((name for mark, name in _BOMS if beginning.startswith(mark)), "utf-8")


_END_OF_LINE: Final = re.compile(r"\r\n|\n|\r")


class Pieces:
    """Bytes in pieces of one size, but for the last; `None`: as they come."""

    def __init__(self, size: int | None) -> None:
        if size is not None and type(size) is not int:
            raise TypeError(f"chunk_size must be a number of bytes, not {kind_of(size)}")
        if size is not None and size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {size}")
        self._size = size
        self._left: list[bytes] = []
        self._length = 0

    def feed(self, piece: bytes) -> list[bytes]:
        """What is whole with this piece."""
        if self._size is None:
            return [piece]
        self._left.append(piece)
        self._length += len(piece)
        if self._length < self._size:
            return []
        joined = b"".join(self._left)
        end = self._length - self._length % self._size
        self._left = [joined[end:]] if end < self._length else []
        self._length -= end
        return [joined[at : at + self._size] for at in range(0, end, self._size)]

    def finish(self) -> list[bytes]:
        """The rest."""
        rest, self._left, self._length = b"".join(self._left), [], 0
        return [rest] if rest else []


class Text:
    """Bytes as text: in the encoding that was told, or else that of a byte order mark, or UTF-8.

    What can't be decoded becomes U+FFFD, as in `Response.text`.
    """

    def __init__(self, told: str | None) -> None:
        self._told = told
        self._decoder: codecs.IncrementalDecoder | None = None
        self._head = b""
        self._is_first = True

    def feed(self, piece: bytes) -> str:
        """What can be read with this piece."""
        if self._decoder is None:
            self._head += piece
            if self._told is None and len(self._head) < MARK_BYTES and not self._head.isascii():
                return ""
            piece = self._head
            self._begin()
        return self._decoded(piece, final=False)

    def finish(self) -> str:
        """The rest."""
        if self._decoder is not None:
            return self._decoded(b"", final=True)
        self._begin()
        return self._decoded(self._head, final=True)

    def _begin(self) -> None:
        encoding = self._told or marked_encoding(self._head)
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def _decoded(self, piece: bytes, *, final: bool) -> str:
        text = "" if self._decoder is None else self._decoder.decode(piece, final)
        if text and self._is_first:
            self._is_first = False
            text = text.removeprefix("\ufeff")
        return text


class Lines:
    r"""Text as lines, which end with `\n`, `\r\n` or `\r`, and with nothing else: JSON may have U+2028 in a line."""

    def __init__(self) -> None:
        self._begun: list[str] = []
        self._after_return = False

    def feed(self, text: str) -> list[str]:
        """The lines that end in this text, without their ends."""
        if self._after_return and text:
            # The line was given out with its `\r`; this `\n` belongs to it.
            text = text.removeprefix("\n")
            self._after_return = False
        if not text:
            return []
        self._after_return = text.endswith("\r")
        *lines, rest = _END_OF_LINE.split(text)
        if lines:
            lines[0] = "".join((*self._begun, lines[0]))
            self._begun = []
        if rest:
            self._begun.append(rest)
        return lines

    def finish(self) -> list[str]:
        """The last line, if it has no end."""
        rest, self._begun = "".join(self._begun), []
        return [rest] if rest else []
