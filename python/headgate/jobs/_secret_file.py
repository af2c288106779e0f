"""Reads secrets from files, so that no list of processes has them. No message shows the content."""

import os
import stat
from typing import Any, Final, Self

MAX_BYTES: Final = 1024**2
"""The bound of headers and tokens; servers accept far less."""


class SecretText(str):
    """The text of a file that can be read again.

    Attributes:
        path: The absolute path of the file.
    """

    __slots__ = ("path",)
    path: str

    def __new__(cls, text: str, path: str) -> Self:
        """Creates a text with the path of its file."""
        made = super().__new__(cls, text)
        made.path = path
        return made


class SecretBytes(bytes):
    """A text of a file that can be read again, encoded.

    Attributes:
        path: The absolute path of the file.
    """

    path: str

    @classmethod
    def encoded(cls, text: str) -> bytes:
        """Returns the text as bytes, with the path of its file if it has one."""
        if not isinstance(text, SecretText):
            return text.encode()
        made = cls(text.encode())
        made.path = text.path
        return made


def files_of(options: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - options of any function
    """Returns the options whose values came from files that can be read again, each with the path."""
    found = [(name, getattr(options, name, None)) for name in ("bearer", "user")]
    found += [("headers", value) for _, value in getattr(options, "headers", None) or ()]
    paths = [(name, value.path) for name, value in found if isinstance(value, SecretText | SecretBytes)]
    return list(dict.fromkeys(paths))


def read(path: str) -> str:
    """Returns the text of a file, without its final line end; a `SecretText` if the file can be read again.

    Raises:
        ValueError: The file can't be read, or is not such a text.
    """
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - also `/dev/fd/63`, which a shell passes for `<(...)`
            data = file.read(MAX_BYTES + 1)
            is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except (OSError, ValueError) as error:
        raise ValueError(f"can't read {os.fsdecode(path)!r}: {reason(error)}") from None
    # A descriptor such as `/dev/fd/63` is gone when this process has ended its shell's redirection.
    can_be_read_again = is_regular and not os.fsdecode(path).startswith(("/dev/", "/proc/"))
    text = as_text(data)
    if not can_be_read_again:
        return text
    return SecretText(text, os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 - `pathlib` is slow to import


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
