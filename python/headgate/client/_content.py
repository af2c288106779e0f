"""What a request may have as its content: bytes, files, or bytes that are made while they are sent.

A regular file is read by the engine (`OpenedFile`, or a path): without Python, in chunks, and as often as it is sent.
Anything else that is not in memory is a `Source`, which the caller's thread or loop reads while the engine sends it.
"""

import io
import os
import stat
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Set as AbstractSet
from inspect import isasyncgen, iscoroutinefunction, isgenerator
from os import PathLike
from typing import IO, Any, Final, NamedTuple, TypeAlias

from headgate._checks import kind_of
from headgate.client._errors import InvalidRequest

BytesLike: TypeAlias = bytes | bytearray | memoryview
Content: TypeAlias = BytesLike | str | PathLike[str] | IO[bytes] | Iterable[BytesLike]
"""The content of a request: bytes, text, the path of a file, a file, or an iterable of bytes."""

AsyncContent: TypeAlias = Content | AsyncIterable[BytesLike]
"""The content of a request of an `AsyncClient`, which may also be an asynchronous iterable."""

READ_BYTES: Final = 64 * 1024
"""Bytes that are read from a file-like object at a time."""

_DECOMPRESSING: Final = {"bz2", "gzip", "lzma", "zipfile"}
"""Modules with files of which the length is known only after all of it was decompressed."""


class OpenedFile(NamedTuple):
    """A range of a regular file that the caller has opened, and the name of the file in messages."""

    file: IO[bytes]
    offset: int
    length: int
    name: str


Piece: TypeAlias = bytes | str | OpenedFile
"""A piece of a body as the engine takes it: bytes, the path of a file, or an open file."""


class Source:
    """Bytes that are made while they are sent.

    Attributes:
        length: The number of bytes, if it is known.
        is_rewindable: Whether `begin` can be called more than once.
        is_async: Whether `begin` returns an asynchronous iterator.
    """

    def __init__(
        self,
        begin: Callable[[], Iterator[bytes] | AsyncIterator[bytes]],
        *,
        length: int | None = None,
        is_rewindable: bool,
        is_async: bool = False,
    ) -> None:
        self._begin = begin
        self.length: int | None = length
        self.is_rewindable: bool = is_rewindable
        self.is_async: bool = is_async

    def begin(self) -> Iterator[bytes]:
        """Returns the pieces, from the first."""
        pieces = self._begin()
        if not isinstance(pieces, Iterator):
            raise TypeError("content is an asynchronous iterable: it is for an AsyncClient")
        return pieces

    def begin_async(self) -> AsyncIterator[bytes]:
        """Returns the pieces of an asynchronous source, from the first."""
        pieces = self._begin()
        if not isinstance(pieces, AsyncIterator):
            raise TypeError("the content is not asynchronous")
        return pieces


Sent: TypeAlias = bytes | list[Piece] | Source
"""A body as it is sent."""


def sent_of(content: object, argument: str = "content") -> Sent:
    """Returns what is sent of some content.

    Raises:
        TypeError: It has a type that can't be sent.
        ValueError: It was sent before, or is a closed file.
        OSError: It is a file that can't be read.
    """
    if isinstance(content, bytes | bytearray | memoryview | str):
        return content.encode() if isinstance(content, str) else bytes(content)
    if isinstance(content, PathLike):
        return [os.fsdecode(content)]
    read = getattr(content, "read", None)
    if iscoroutinefunction(read):
        return Source(lambda: _read_async(read), is_rewindable=False, is_async=True)
    if read is not None and not isinstance(content, AsyncIterable):
        return _sent_of_file(_inner(content), argument)
    return _sent_of_iterable(content, argument)


def _sent_of_iterable(content: object, argument: str) -> Sent:
    if (isgenerator(content) and content.gi_frame is None) or (isasyncgen(content) and content.ag_frame is None):
        raise ValueError(f"{argument} is a generator that has ended: it can be sent only once")
    if isinstance(content, AsyncIterable):
        return Source(content.__aiter__, is_rewindable=not isinstance(content, AsyncIterator), is_async=True)
    if isinstance(content, list | tuple):
        return b"".join(piece for each in content for piece in chunks_of(each, argument))
    if isinstance(content, Iterable) and not isinstance(content, Mapping | AbstractSet):
        return Source(content.__iter__, is_rewindable=not isinstance(content, Iterator))
    raise TypeError(f"{argument} must be bytes, text, a path, a file or an iterable of bytes, not {kind_of(content)}")


def chunks_of(piece: object, argument: str = "content") -> Iterator[bytes]:
    """Yields the bytes of a piece: `bytes` as one chunk, and memory that can change as copies of at most 64 KiB.

    Raises:
        TypeError: The piece is no bytes-like object.
    """
    if isinstance(piece, bytes):
        yield piece
    elif isinstance(piece, bytearray | memoryview):
        with memoryview(piece) as whole, memoryview(whole if whole.c_contiguous else bytes(whole)) as view:
            octets = view.cast("B") if view.nbytes else view
            for start in range(0, octets.nbytes, READ_BYTES):
                yield bytes(octets[start : start + READ_BYTES])
            octets.release()
    else:
        text = ": open the file in binary mode ('rb')" if isinstance(piece, str) else ""
        raise TypeError(f"{argument} must consist of bytes, not {kind_of(piece)}{text}")


def read_pieces(pieces: list[Piece]) -> Iterator[bytes]:
    """Yields the bytes of pieces, where Python reads them and not the engine.

    Raises:
        OSError: A file can't be read.
        ValueError: A file has become shorter.
    """
    for piece in pieces:
        if isinstance(piece, bytes):
            yield piece
        elif isinstance(piece, str):
            with io.FileIO(piece) as file:
                while read := file.read(READ_BYTES):
                    yield read
        else:
            offset, end = piece.offset, piece.offset + piece.length
            while offset < end:
                read = os.pread(piece.file.fileno(), min(READ_BYTES, end - offset), offset)
                if not read:
                    raise ValueError(f"a file of the body was changed while it was sent ({piece.name})")
                offset += len(read)
                yield read


def length_of(sent: Sent) -> int | None:
    """Returns the length of a body, if it is known."""
    if isinstance(sent, bytes):
        return len(sent)
    if isinstance(sent, Source):
        return sent.length
    return sum(map(_length_of_piece, sent))


def _length_of_piece(piece: Piece) -> int:
    if isinstance(piece, bytes):
        return len(piece)
    return piece.length if isinstance(piece, OpenedFile) else os.stat(piece).st_size  # noqa: PTH116 - pathlib is slow to import


def _inner(file: Any) -> Any:  # noqa: ANN401 - any file-like object
    """Returns the file inside of one of `tempfile`, which has the same bytes and position."""
    if type(file).__module__ != "tempfile":
        return file
    return getattr(file, "file", None) or getattr(file, "_file", file)


def _sent_of_file(given: object, argument: str) -> Sent:
    if isinstance(given, io.TextIOBase):
        raise TypeError(f"{argument} is a file in text mode: open it in binary mode ('rb')")
    if isinstance(given, io.IOBase) and not given.readable():
        raise TypeError(f"{argument} is a file that is open only for writing: open it with 'rb'")
    file: Any = given
    if type(file) is io.BytesIO:
        content = file.getvalue()
        return content[file.tell() :] if file.tell() else content
    # Only these, because others may change what they read.
    raw: object = file.raw if type(file) in {io.BufferedReader, io.BufferedRandom} else file
    if type(raw) is io.FileIO:
        status = os.fstat(file.fileno())
        if stat.S_ISREG(status.st_mode):
            if file.writable():
                file.flush()
                status = os.fstat(file.fileno())
            offset = file.tell()
            # Some files of the system have no length, and yet something to read.
            if status.st_size > 0 or not os.pread(file.fileno(), 1, offset):
                return [OpenedFile(file, offset, max(status.st_size - offset, 0), str(getattr(file, "name", "a file")))]
            return Source(lambda: _read(file, offset), is_rewindable=True)
    start = _position(file)
    return Source(lambda: _read(file, start), length=_length_of(file, start), is_rewindable=start is not None)


def _position(file: Any) -> int | None:  # noqa: ANN401 - as above
    try:
        position: int | None = file.tell() if file.seekable() else None
    except (AttributeError, OSError):
        return None
    return position


def _length_of(file: Any, start: int | None) -> int | None:  # noqa: ANN401 - as above
    length = len(file) if hasattr(file, "__len__") else getattr(file, "len", None)
    if isinstance(length, int):
        return max(length - (start or 0), 0)
    if start is None or type(file).__module__ in _DECOMPRESSING:
        return None
    file.seek(0, io.SEEK_END)
    end: int = file.tell()
    file.seek(start)
    return max(end - start, 0)


def _read(file: Any, start: int | None) -> Iterator[bytes]:  # noqa: ANN401 - as above
    if start is not None:
        file.seek(start)
    # A pipe may have less than that, and nothing more for a long time.
    read = getattr(file, "read1", file.read)
    try:
        piece = read(READ_BYTES)
    except io.UnsupportedOperation:  # what a subclass of `io.BufferedIOBase` inherits
        read = file.read
        piece = read(READ_BYTES)
    while _checked(piece):
        yield piece
        piece = read(READ_BYTES)


async def _read_async(read: Callable[[int], Any]) -> AsyncIterator[bytes]:
    while _checked(piece := await read(READ_BYTES)):
        yield piece


def _checked(piece: Any) -> Any:  # noqa: ANN401 - what a file-like object reads
    """Returns what was read.

    Raises:
        InvalidRequest: It is `None`, with which a non-blocking file says that nothing has arrived yet.
    """
    if piece is None:
        raise InvalidRequest("content is a non-blocking file: read() returned None before its end; make it blocking")
    return piece
