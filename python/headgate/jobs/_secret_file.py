"""Secrets that stand in a file, so that they stand in no list of processes. No message shows what is in it."""

import os
from typing import Final

LONGEST_BYTES: Final = 1024**2
"""Of headers and tokens; servers take far less."""


def read(path: str) -> str:
    """What is in a file, without the line end after its last line.

    Raises:
        ValueError: It can't be read, or is no such text.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - `/dev/fd/63`, too, which a shell gives for `<(...)`
            data = file.read(LONGEST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise ValueError(f"can't read {os.fsdecode(path)!r}: {reason(error)}") from None
    return as_text(data)


def as_text(data: bytes) -> str:
    """What was read, as `read` gives it.

    Raises:
        ValueError: It is no such text.
    """
    if len(data) > LONGEST_BYTES:
        raise ValueError("is longer than 1 MiB")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    return text.removesuffix("\n").removesuffix("\r")


def reason(error: OSError | ValueError) -> str:
    """Why a file can't be read."""
    return (getattr(error, "strerror", None) or str(error)).lower()
