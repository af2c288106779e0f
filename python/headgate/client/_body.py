"""Bodies of requests and their media types."""

from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, TypeAlias

from headgate._checks import kind_of

Pairs: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]
FileContent: TypeAlias = bytes | str | IO[bytes]
File: TypeAlias = FileContent | tuple[str | None, FileContent] | tuple[str | None, FileContent, str | None]
Files: TypeAlias = Mapping[str, File] | Iterable[tuple[str, File]]

_LITERAL = {None: "", True: "true", False: "false"}


def items_of(argument: str, given: object) -> Iterator[tuple[Any, Any]]:
    """Yields the names and values of a mapping, or of pairs.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{argument} must be a mapping or pairs of names and values, not {kind_of(given)}")
    for item in given.items() if isinstance(given, Mapping) else given:
        if not isinstance(item, tuple | list) or len(item) != 2:  # noqa: PLR2004 - a pair
            raise TypeError(f"{argument} must contain pairs of a name and a value, not {kind_of(item)}")
        yield item[0], item[1]


def pairs_of(argument: str, given: Pairs) -> list[tuple[str, str]]:
    """Returns names and values as text; a list means several values of one name. Raises as `items_of`."""
    pairs = []
    for name, value in items_of(argument, given):
        for one in value if isinstance(value, list | tuple) else (value,):
            is_literal = one is None or isinstance(one, bool)
            pairs.append((str(name), _LITERAL[one] if is_literal else str(one)))
    return pairs


def body_of(
    content: bytes | str | None, data: Pairs | bytes | str | None, files: Files | None, value: object
) -> tuple[bytes | None, str | None]:
    """Returns the body and its media type, if there is one.

    Raises:
        TypeError: An argument has a type that can't be sent.
        ValueError: More than one body is given.
    """
    given = [name for name, one in (("content", content), ("json", value), ("data", data)) if one is not None]
    if len(given) > 1 or (files is not None and any(name != "data" for name in given)):
        raise ValueError(f"{' and '.join([*given, *(['files'] if files is not None else [])])}: a request has one body")
    if value is not None:
        import json  # noqa: PLC0415 - most requests have no such body

        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return text.encode(), "application/json"
    if files is not None:
        if isinstance(data, bytes | str):
            raise TypeError(f"data must be names and values beside files, not {kind_of(data)}")
        return _multipart(pairs_of("data", data or ()), files)
    if data is not None and not isinstance(data, bytes | bytearray | memoryview | str):
        from urllib.parse import urlencode  # noqa: PLC0415 - as above

        return urlencode(pairs_of("data", data)).encode(), "application/x-www-form-urlencoded"
    sent = content if content is not None else data
    if sent is None:
        return None, None
    if isinstance(sent, str):
        return sent.encode(), "text/plain; charset=utf-8"
    if isinstance(sent, bytes | bytearray | memoryview):
        return bytes(sent), "application/octet-stream"
    raise TypeError(f"content must be bytes or text, not {kind_of(sent)}")


def _multipart(fields: list[tuple[str, str]], files: Files) -> tuple[bytes, str]:
    import secrets  # noqa: PLC0415 - as above

    boundary = secrets.token_hex(16)
    pieces = []
    for name, text in fields:
        pieces.append(_part(boundary, name, None, None, text.encode()))
    for name, file in items_of("files", files):
        file_name, content, *kind = file if isinstance(file, tuple) else (_name_of(file), file)
        data = content if isinstance(content, bytes | str) else content.read()
        data = data.encode() if isinstance(data, str) else data
        pieces.append(_part(boundary, name, file_name, (kind or [None])[0] or "application/octet-stream", data))
    return b"".join([*pieces, f"--{boundary}--\r\n".encode()]), f"multipart/form-data; boundary={boundary}"


def _name_of(file: FileContent) -> str:
    from pathlib import Path  # noqa: PLC0415 - as above

    path = getattr(file, "name", None)
    return Path(path).name if isinstance(path, str) else "upload"


def _part(boundary: str, name: str, file_name: str | None, kind: str | None, data: bytes) -> bytes:
    head = f'--{boundary}\r\ncontent-disposition: form-data; name="{_quoted(name)}"'
    if file_name is not None:
        head += f'; filename="{_quoted(file_name)}"'
    if kind is not None:
        head += f"\r\ncontent-type: {kind}"
    return head.encode() + b"\r\n\r\n" + data + b"\r\n"


def _quoted(text: str) -> str:
    """Escapes text as browsers do: https://html.spec.whatwg.org/#multipart-form-data."""
    return text.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
