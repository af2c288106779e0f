"""Forms with files (RFC 7578), encoded as browsers do: https://html.spec.whatwg.org/#multipart-form-data."""

import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import groupby
from os import PathLike, fsdecode
from pathlib import Path
from typing import Any, Final

from headgate._checks import kind_of
from headgate.client._content import Piece, Sent, Source, length_of, read_pieces, sent_of
from headgate.client._pairs import items_of

BOUNDARY: Final = re.compile(r""";\s*boundary=(?:"([^"]+)"|([^\s;"]+))""", re.IGNORECASE)
_UNSENDABLE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""The name of a header (RFC 9110 section 5.6.2)."""
_SHAPES: Final = "(file name, content), (file name, content, media type) or (file name, content, media type, headers)"


def multipart_of(
    fields: Iterable[tuple[Any, Any]], files: Iterable[tuple[Any, Any]], content_type: str | None
) -> tuple[Sent, str]:
    """Returns the body of a form, and its media type.

    Args:
        fields: Names and values.
        files: Names and files.
        content_type: The `Content-Type` header of the request, whose boundary is used.

    Raises:
        TypeError: A field or a file has a type that can't be sent.
        ValueError: The header has no boundary, or a name or a header can't be sent.
        OSError: A file can't be read.
    """
    boundary = _boundary(content_type)
    delimiter = f"--{boundary}\r\n".encode()
    parts: list[Sent] = []
    for name, value in fields:
        for one in value if isinstance(value, list | tuple) else (value,):
            parts += [delimiter + _headers_of_part(name, None, None, ()) + _text_of(name, one) + b"\r\n"]
    for name, file in files:
        file_name, content, media_type, headers = _parsed(file)
        sent = sent_of(content, f"the file {name!r}")
        parts += [delimiter + _headers_of_part(name, file_name, media_type, headers), sent, b"\r\n"]
    parts.append(f"--{boundary}--\r\n".encode())
    return _joined(parts), f"multipart/form-data; boundary={boundary}"


def _boundary(content_type: str | None) -> str:
    if content_type is not None and content_type.lower().startswith("multipart/form-data"):
        found = BOUNDARY.search(content_type)
        if found is None:
            raise ValueError(
                "the Content-Type of a form with files has a boundary, and this header has none: leave the header out"
            )
        return found[1] or found[2]
    import secrets  # noqa: PLC0415 - most forms choose no boundary

    return secrets.token_hex(16)


def _parsed(file: Any) -> tuple[str | None, object, str | None, Iterable[tuple[Any, Any]]]:  # noqa: ANN401 - what the caller gave
    """Returns the file name, the content, the media type and the headers of a part."""
    if isinstance(file, list):
        raise TypeError(f"a file can't be {kind_of(file)}: give several files of one name as pairs, [(name, file), …]")
    if not isinstance(file, tuple):
        own_name = _name_of(file)
        return own_name, file, _media_type_of(own_name), ()
    if not 2 <= len(file) <= 4:  # noqa: PLR2004 - the shapes below
        raise TypeError(f"a file in a tuple is {_SHAPES}, not {len(file)} values")
    values = list(file)
    values += [None, None]
    name, media_type = _text_or_none("file name", values[0]), _text_or_none("media type", values[2])
    content, headers = values[1], values[3]
    pairs = [] if headers is None else list(items_of("the headers of a file", headers))
    if any(str(header).lower() == "content-type" for header, _ in pairs):
        return name, content, None, pairs  # as httpx: the header wins
    return name, content, media_type or (None if name is None else _media_type_of(name)), pairs


def _text_or_none(what: str, value: Any) -> str | None:  # noqa: ANN401 - as above
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"a file in a tuple is {_SHAPES}: the {what} can't be {kind_of(value)}")


def _name_of(file: object) -> str:
    name = file if isinstance(file, PathLike) else getattr(file, "name", None)
    return Path(fsdecode(name)).name if isinstance(name, str | PathLike) else "upload"


def _media_type_of(name: str) -> str:
    import mimetypes  # noqa: PLC0415 - it reads the types of the system

    return mimetypes.guess_type(name)[0] or "application/octet-stream"


def _text_of(name: object, value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if value is None or isinstance(value, bool):
        return b"" if value is None else b"true" if value else b"false"
    if isinstance(value, str | int | float):
        return str(value).encode()
    raise TypeError(f"the field {name!r} of data must be text, bytes or a number, not {kind_of(value)}")


def _headers_of_part(
    name: object, file_name: str | None, media_type: str | None, headers: Iterable[tuple[Any, Any]]
) -> bytes:
    if not isinstance(name, str):
        raise TypeError(f"the names of a form must be text, not {kind_of(name)}")
    lines = [f'Content-Disposition: form-data; name="{_quoted(name)}"']
    if file_name is not None:
        lines[0] += f'; filename="{_quoted(file_name)}"'
    for header, value in headers:
        if not isinstance(header, str) or not isinstance(value, str):
            raise TypeError(f"the headers of the file {name!r} must be names and values in text")
        if not _TOKEN.fullmatch(header):
            raise ValueError(f"a header of the file {name!r} can't be called {header!r}")
        lines.append(f"{header}: {value}")
    if media_type is not None:
        lines.append(f"Content-Type: {media_type}")
    for line in lines:
        if _UNSENDABLE.search(line):
            raise ValueError(f"a header of the file {name!r} can't be sent: {line!r}")
    return "\r\n".join([*lines, "\r\n"]).encode()


def _quoted(text: str) -> str:
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")


def _joined(parts: list[Sent]) -> Sent:
    """Returns the parts as one body, which the engine reads unless Python has to make one of them."""
    if any(isinstance(part, Source) for part in parts):
        lengths = [length_of(part) for part in parts]
        known = [length for length in lengths if length is not None]
        is_async = any(isinstance(part, Source) and part.is_async for part in parts)
        begin: Callable[[], Iterator[bytes] | AsyncIterator[bytes]]
        begin = (lambda: _read_async(parts)) if is_async else (lambda: _read(parts))
        return Source(
            begin,
            length=sum(known) if len(known) == len(lengths) else None,
            is_rewindable=all(not isinstance(part, Source) or part.is_rewindable for part in parts),
            is_async=is_async,
        )
    pieces = [piece for part in parts for piece in ([part] if isinstance(part, bytes) else part)]  # type: ignore[union-attr]
    joined: list[Piece] = []
    for is_bytes, grouped in groupby(pieces, lambda piece: isinstance(piece, bytes)):
        group = list(grouped)
        joined += [b"".join(group)] if is_bytes else group  # type: ignore[arg-type]
    return joined[0] if len(joined) == 1 and isinstance(joined[0], bytes) else joined


def _read(parts: list[Sent]) -> Iterator[bytes]:
    for part in parts:
        if isinstance(part, Source):
            yield from part.begin()
        else:
            yield from read_pieces([part] if isinstance(part, bytes) else part)


async def _read_async(parts: list[Sent]) -> AsyncIterator[bytes]:
    for part in parts:
        if isinstance(part, Source) and part.is_async:
            async for piece in part.begin_async():
                yield piece
        else:
            for piece in _read([part]):
                yield piece
