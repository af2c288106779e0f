"""Reads values of flags from `@FILE`, from `env:NAME`, and from standard input, which can be read only once."""

import os
import sys
from pathlib import Path
from typing import Final

from headgate.cli._values import Values
from headgate.jobs import _secret_file
from headgate.jobs._option_entry import STANDARD_STREAM

FROM_FILE: Final = "@"
FROM_ENVIRONMENT: Final = "env:"
REFERENCES: Final = (FROM_FILE, FROM_ENVIRONMENT)
"""How a reference to a secret begins."""

HEADER_ENV: Final = "header_env"
"""The name of the values that --header-env adds to the headers."""


class Files:
    """Reads files that were typed as `@FILE`, and adds a mistake for one that can't be read."""

    def __init__(self, values: Values, *, taken_by: str = "") -> None:
        """Creates a reader; `taken_by` is the argument that reads standard input already."""
        self._values = values
        self._taken_by = taken_by

    def data(self, name: str) -> bytes | None:
        """Returns the value of a flag, which may be in a file."""
        text = self._values.text(name)
        if text is None or not text.startswith(FROM_FILE):
            return None if text is None else text.encode()
        file = text.removeprefix(FROM_FILE)
        if file == STANDARD_STREAM:
            return self._standard_input(name, max_bytes=-1) or b""
        try:
            return Path(file).read_bytes()
        except (OSError, ValueError) as error:
            self._values.wrong(name, f"can't read {file!r}: {_secret_file.reason(error)}")
            return b""

    def text(self, name: str) -> str | None:
        """Returns the value of a flag as text, from UTF-8."""
        data = self.data(name)
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            self._values.wrong(name, f"isn't UTF-8: byte 0x{data[error.start]:02X} after {error.start} valid ones")
            return None

    def secret(self, name: str, typed: str) -> str | None:
        """Returns the text of a short file, without its final line end, or `None` if it can't be read."""
        file = typed.removeprefix(FROM_FILE)
        try:
            if file != STANDARD_STREAM:
                return _secret_file.read(file)
            data = self._standard_input(name, max_bytes=_secret_file.MAX_BYTES + 1)
            return None if data is None else _secret_file.as_text(data)
        except ValueError as error:
            self._values.wrong(name, str(error))
            return None

    def reference(self, name: str, typed: str) -> str | None:
        """Returns the secret that `@FILE` or `env:NAME` refers to, or `None` if it can't be read."""
        if typed.startswith(FROM_FILE):
            return self.secret(name, typed)
        variable = typed.removeprefix(FROM_ENVIRONMENT)
        value = os.environ.get(variable)
        if not value:
            self._values.wrong(name, f"names a variable that is {'not set' if value is None else 'empty'}: {variable}")
        return value or None

    def _standard_input(self, name: str, *, max_bytes: int) -> bytes | None:
        if self._taken_by:
            self._values.wrong(name, f"@- and {self._taken_by} can't both read standard input")
            return None
        if sys.stdin is None:
            self._values.wrong(name, "can't read standard input: it is closed")
            return None
        self._taken_by = f"{self._values.name_of(name)} @-"
        return sys.stdin.buffer.read(max_bytes)
