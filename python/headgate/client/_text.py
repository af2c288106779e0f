"""The encoding of a body's text, and decoders of a body that arrives in pieces. Nothing here waits."""

import codecs
import re
from collections.abc import Callable, Mapping
from typing import AnyStr, Final, Generic

from headgate._checks import kind_of

_BOMS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
MAX_BOM_BYTES: Final = 4
"""The longest byte order mark."""


def declared_encoding(headers: Mapping[str, str]) -> str | None:
    """Returns the encoding that the content-type declares, or `None` if it declares none or an unknown one."""
    from email.message import Message as MediaType  # noqa: PLC0415 - it takes 6 ms, and JSON and bytes don't need it

    media_type = MediaType()
    media_type["content-type"] = headers.get("content-type", "")
    declared = media_type.get_param("charset")
    if isinstance(declared, str):
        try:
            return codecs.lookup(declared.strip("'\" ")).name
        except LookupError:
            pass
    return None


def bom_encoding(beginning: bytes) -> str:
    """Returns the encoding that a byte order mark indicates, or else UTF-8."""
    return next((name for mark, name in _BOMS if beginning.startswith(mark)), "utf-8")


_END_OF_LINE: Final = re.compile(r"\r\n|\n|\r")


class Chunks(Generic[AnyStr]):
    """Cuts bytes or text into chunks of one size, except the last; `None` means the pieces as they arrive."""

    def __init__(self, size: int | None, join: Callable[[list[AnyStr]], AnyStr]) -> None:
        if size is not None and type(size) is not int:
            raise TypeError(f"chunk_size must be a number, not {kind_of(size)}")
        if size is not None and size < 1:
            raise ValueError(f"chunk_size must be at least 1, not {size}")
        self._size = size
        self._join: Callable[[list[AnyStr]], AnyStr] = join
        self._pending: list[AnyStr] = []
        self._length = 0

    def feed(self, piece: AnyStr) -> list[AnyStr]:
        """Returns the chunks that are complete with this piece."""
        if self._size is None:
            return [piece]
        self._pending.append(piece)
        self._length += len(piece)
        if self._length < self._size:
            return []
        joined = self._join(self._pending)
        end = self._length - self._length % self._size
        self._pending = [joined[end:]] if end < self._length else []
        self._length -= end
        return [joined[at : at + self._size] for at in range(0, end, self._size)]

    def finish(self) -> list[AnyStr]:
        """Returns the last chunk, if there is one."""
        rest, self._pending, self._length = self._join(self._pending), [], 0
        return [rest] if rest else []


class TextDecoder:
    """Decodes bytes in the declared encoding, or else in that of a byte order mark, or in UTF-8.

    Bytes that can't be decoded become U+FFFD, as in `Response.text`.
    """

    def __init__(self, declared: str | None) -> None:
        self._declared = declared
        self._decoder: codecs.IncrementalDecoder | None = None
        self._undecoded = b""
        self._is_first = True

    def feed(self, piece: bytes) -> str:
        """Returns the text that is complete with this piece."""
        if self._decoder is None:
            self._undecoded += piece
            if self._declared is None and len(self._undecoded) < MAX_BOM_BYTES and not self._undecoded.isascii():
                return ""
            piece = self._undecoded
            self._begin()
        return self._decode(piece, final=False)

    def finish(self) -> str:
        """Returns the rest of the text."""
        if self._decoder is not None:
            return self._decode(b"", final=True)
        self._begin()
        return self._decode(self._undecoded, final=True)

    def _begin(self) -> None:
        encoding = self._declared or bom_encoding(self._undecoded)
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")

    def _decode(self, piece: bytes, *, final: bool) -> str:
        text = "" if self._decoder is None else self._decoder.decode(piece, final)
        if text and self._is_first:
            self._is_first = False
            text = text.removeprefix("\ufeff")
        return text


class LineSplitter:
    r"""Splits text into lines at `\n`, `\r\n` and `\r` only, because JSON may have U+2028 within a line."""

    def __init__(self) -> None:
        self._unfinished: list[str] = []
        self._after_return = False

    def feed(self, text: str) -> list[str]:
        """Returns the lines that end in this text, without their line endings."""
        if self._after_return and text:
            # The line was returned at its `\r`; this `\n` belongs to it.
            text = text.removeprefix("\n")
            self._after_return = False
        if not text:
            return []
        self._after_return = text.endswith("\r")
        *lines, rest = _END_OF_LINE.split(text)
        if lines:
            lines[0] = "".join((*self._unfinished, lines[0]))
            self._unfinished = []
        if rest:
            self._unfinished.append(rest)
        return lines

    def finish(self) -> list[str]:
        """Returns the last line, if it has no line ending."""
        rest, self._unfinished = "".join(self._unfinished), []
        return [rest] if rest else []
