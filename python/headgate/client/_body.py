"""Bodies of requests and their media types."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import IO, TypeAlias

from headgate._checks import kind_of
from headgate.client._content import AsyncContent, Content, Sent, Source, sent_of
from headgate.client._pairs import Pairs, items_of, pairs_of

Data: TypeAlias = Pairs | bytes | str | IO[bytes] | PathLike[str]
PartHeaders: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
File: TypeAlias = (
    Content
    | tuple[str | None, Content]
    | tuple[str | None, Content, str | None]
    | tuple[str | None, Content, str | None, PartHeaders]
)
"""A file of a form: its content, or that with the file name, the media type and the headers of its part."""
AsyncFile: TypeAlias = (
    AsyncContent
    | tuple[str | None, AsyncContent]
    | tuple[str | None, AsyncContent, str | None]
    | tuple[str | None, AsyncContent, str | None, PartHeaders]
)
# Not of any iterable: a mapping is one, too, and mypy would accept no literal of a mapping with files of several types.
Files: TypeAlias = Mapping[str, File] | Sequence[tuple[str, File]]
AsyncFiles: TypeAlias = Mapping[str, AsyncFile] | Sequence[tuple[str, AsyncFile]]


def body_of(
    content: object, data: object, files: object, value: object, headers: Iterable[tuple[str, bytes]]
) -> tuple[Sent | None, str | None]:
    """Returns the body of a request with these headers, and its media type, if there is one.

    Raises:
        TypeError: An argument has a type that can't be sent.
        ValueError: More than one body is given, or it contradicts a header.
        OSError: A file can't be read.
    """
    if files is not None:
        files = list(items_of("files", files))
    given = [name for name, one in (("content", content), ("json", value), ("data", data)) if one is not None]
    if len(given) > 1 or (files and any(name != "data" for name in given)):
        raise ValueError(f"{' and '.join([*given, *(['files'] if files else [])])}: a request has one body")
    if value is not None:
        import json  # noqa: PLC0415 - most requests have no such body

        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode(), "application/json"
    is_form = data is not None and not _is_content(data)
    if files:
        from headgate.client._multipart import multipart_of  # noqa: PLC0415 - as above

        if data is not None and not is_form:
            raise TypeError(f"data must be names and values beside files, not {kind_of(data)}")
        return _stated(*multipart_of(items_of("data", data or ()), files, _header(headers, "content-type")), headers)
    if is_form:
        from urllib.parse import urlencode  # noqa: PLC0415 - as above

        return urlencode(pairs_of("data", data)).encode(), "application/x-www-form-urlencoded"  # type: ignore[arg-type]
    sent = content if content is not None else data
    if sent is None:
        return None, None
    kind = "text/plain; charset=utf-8" if isinstance(sent, str) else "application/octet-stream"
    return _stated(sent_of(sent, given[0]), kind, headers)


def _is_content(data: object) -> bool:
    return isinstance(data, bytes | bytearray | memoryview | str | PathLike) or hasattr(data, "read")


def _stated(sent: Sent, kind: str, headers: Iterable[tuple[str, bytes]]) -> tuple[Sent, str]:
    """Returns a body and its media type, with the length that a header states if it isn't known otherwise."""
    stated = _header(headers, "content-length") if isinstance(sent, Source) else None
    if isinstance(sent, Source) and stated is not None:
        if not (stated.isascii() and stated.isdigit()):
            raise ValueError(f"the header Content-Length must be a number of bytes, not {stated!r}")
        if sent.length not in {None, int(stated)}:
            raise ValueError(f"the body has {sent.length} bytes, and the header Content-Length says {stated}")
        sent.length = int(stated)
    return sent, kind


def _header(headers: Iterable[tuple[str, bytes]], name: str) -> str | None:
    values = (value for each, value in headers if each.lower() == name)
    value = next(values, None)
    return None if value is None else value.decode(errors="replace").strip()
