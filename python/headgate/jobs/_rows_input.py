"""Rows from a Python iterable: a thread writes them into a named pipe, which the engine reads as an input file."""

import json
import os
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from headgate._message import PIPE_NAME, PIPE_PREFIX
from headgate.jobs._option_entry import Inputs, is_table
from headgate.jobs._signals import RunningJob

_FORMS: Final = "a row must be a URL, or a mapping of columns to values"
_NOTE: Final = "headgate stopped the run: rows before this error whose requests had not started are not done"
_RETRY_S: Final = 0.01

NO_ROW: Final = object()
"""The end of the rows."""


class RowsInput:
    """A named pipe with the rows of an iterable, one JSON object on each line.

    A thread reads the iterable, no faster than the engine reads the pipe. If the iterable raises an error, the run is
    stopped: its input has not ended.

    Attributes:
        path: The pipe.
    """

    def __init__(self, first: object, rows: Iterator[object], url_column: str) -> None:
        """Creates the pipe.

        Args:
            first: The first row, which is checked before a job starts; `NO_ROW`: there is none.
            rows: The other rows.
            url_column: The column of a row that is a URL.

        Raises:
            TypeError: The first row is neither a URL nor a mapping, or has a value that JSON does not have.
        """
        self._url_column = url_column
        self._first = b"" if first is NO_ROW else self._line(first)
        self._rows = rows
        # It is also removed at the end of a program that does not wait for its run.
        self._directory = tempfile.TemporaryDirectory(prefix=PIPE_PREFIX, ignore_cleanup_errors=True)
        self.path: str = str(Path(self._directory.name) / PIPE_NAME)
        os.mkfifo(self.path, 0o600)
        self._lock = threading.Lock()
        self._run: RunningJob | None = None
        self._error: BaseException | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._write, name="headgate-rows", daemon=True)

    def start(self) -> None:
        """Starts the thread; the engine opens the pipe after that."""
        self._thread.start()

    def attach(self, run: RunningJob) -> None:
        """Sets the run that reads the rows."""
        with self._lock:
            self._run = run
            has_failed = self._error is not None
        if has_failed:
            run.stop()

    def close(self) -> None:
        """Removes the pipe, once the run has ended or could not start."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._directory.cleanup()

    def raise_error(self) -> None:
        """Raises the error of the iterable, if there was one."""
        if self._error is not None:
            raise self._error

    def _write(self) -> None:
        descriptor = self._open()
        if descriptor is None:
            return
        try:
            line = self._first
            while line and _is_written(descriptor, line):
                row = next(self._rows, NO_ROW)
                line = b"" if row is NO_ROW else self._line(row)
        except BaseException as error:  # noqa: BLE001 - `raise_error` raises it for the caller
            self._fail(error)
        finally:
            os.close(descriptor)

    def _open(self) -> int | None:
        """Returns the pipe once the engine has opened it; `None` if that does not happen."""
        while not self._closed.is_set():
            try:
                descriptor = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # the engine has not opened it yet, or the pipe was removed
                self._closed.wait(_RETRY_S)
                continue
            os.set_blocking(descriptor, True)
            return descriptor
        return None

    def _line(self, row: object) -> bytes:
        if isinstance(row, str):
            row = {self._url_column: row}
        if not isinstance(row, Mapping):
            raise TypeError(f"{_FORMS}, not {type(row).__name__}")
        return json.dumps(dict(row), ensure_ascii=False, allow_nan=False, default=_json_value).encode() + b"\n"

    def _fail(self, error: BaseException) -> None:
        error.add_note(_NOTE)
        with self._lock:
            self._error = error
            run = self._run
        if run is not None:
            run.stop()
        # The end of the pipe would be the end of the input.
        self._closed.wait()


def _is_written(descriptor: int, line: bytes) -> bool:
    """Writes a line, and returns whether the run still reads the pipe."""
    try:
        while line:
            line = line[os.write(descriptor, line) :]
    except BrokenPipeError:
        return False
    return True


def _json_value(value: Any) -> Any:  # noqa: ANN401 - any value of a row
    """Returns the text of a date or time; other types that JSON does not have are refused."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    raise TypeError(f"a row has a value of type {type(value).__name__}, which JSON does not have")


def rows_of(given: Inputs) -> tuple[Inputs, tuple[object, Iterator[object]] | None]:
    """Returns the paths of an input, or its first row and the others.

    Mappings and URLs are rows, and what can't be a path is refused as a row. The items of an iterator are rows unless
    the first one is a path, because an iterator can be endless. An iterator without items has no rows, and a list
    without any names no file.
    """
    if isinstance(given, str | bytes | os.PathLike | Mapping) or not isinstance(given, Iterable):
        return given, None
    if is_table(given):
        return given, None
    items: Iterator[Any] = iter(given)
    first = next(items, NO_ROW)
    if first is NO_ROW and items is not given:
        return (), None
    is_url = isinstance(first, str) and (items is given or "://" in first)
    if is_url or not isinstance(first, str | bytes | os.PathLike):
        return (), (first, items)
    paths: list[Any] = [first, *items]
    return paths, None
