"""Reads secrets from files, so that no list of processes has them. No message shows the content."""

import os
from typing import Final

MAX_BYTES: Final = 1024**2
"""The bound of headers and tokens; servers accept far less."""


def read(path: str) -> str:
    """Returns the text of a file, without its final line end.

    Raises:
        ValueError: The file can't be read, or is not such a text.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - also `/dev/fd/63`, which a shell passes for `<(...)`
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ValueError(f"can't read {os.fsdecode(path)!r}: {reason(error)}") from None
    return as_text(data)


def as_text(data: bytes) -> str:
    """Returns the bytes of a file as text, without its final line end.

    Raises:
        ValueError: The bytes are not such a text.
    """
    if len(data) > MAX_BYTES:
        raise ValueError("is longer than 1 MiB")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")


def reason(error: OSError | ValueError) -> str:
    """Returns why a file can't be read, in lower case."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def lines_of(text: str) -> tuple[str, ...]:
    """Returns the lines of a text that are not blank, and one empty line if there are none: the engine refuses it.

    Without it, an empty file or an unset variable would silently have no effect.
    """
    return tuple(filter(None, map(str.strip, text.splitlines()))) or ("",)
