"""Standard streams that may be closed, or that can't be written to."""

import os
import sys
from io import TextIOWrapper
from typing import IO, Final

_DESCRIPTORS: Final = ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY))
"""The descriptors of the standard streams, with a mode of `/dev/null` that makes their use fail."""


class StandardOutputError(OSError):
    """Standard output can't be written to."""


class _Output(TextIOWrapper):
    """Standard output, whose errors can be told from those of files."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise self._named(error) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise self._named(error) from error

    def _named(self, error: OSError) -> OSError:
        discard_unwritten(self)
        return error if isinstance(error, BrokenPipeError) else StandardOutputError(error.errno, error.strerror)


class _Errors(TextIOWrapper):
    """Standard error. What can't be written to it is lost: the exit code still reports how the command ended."""

    def write(self, text: str, /) -> int:
        try:
            return super().write(text)
        except OSError:
            discard_unwritten(self)
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            discard_unwritten(self)


def protect_streams() -> None:
    """Opens standard streams that are closed, so that no file gets their descriptors, and handles their errors."""
    for descriptor, mode in _DESCRIPTORS:
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # the lowest free descriptor: this one
    sys.stdout = _protected(_Output, 1, sys.stdout)
    sys.stderr = _protected(_Errors, 2, sys.stderr)


def discard_unwritten(stream: IO[str]) -> None:
    """Discards what a stream has not written: it would fail once more at the end, and change the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _protected(kind: type[TextIOWrapper], descriptor: int, stream: object) -> TextIOWrapper:
    if not isinstance(stream, TextIOWrapper):  # it was closed
        return kind(os.fdopen(descriptor, "wb", closefd=False), errors="backslashreplace", line_buffering=True)
    encoding, errors, line_buffering = stream.encoding, stream.errors, stream.line_buffering
    write_through = stream.write_through
    return kind(stream.detach(), encoding, errors, None, line_buffering, write_through)
