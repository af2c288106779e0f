"""The engine of a client: one in each process that uses it, and one for each mock in force there."""

import os
import threading
from typing import NoReturn

from headgate import _mocks, _native
from headgate._facts import table
from headgate._summary import Snapshot, how_far
from headgate._url_user import without_user
from headgate.client._client_options import ClientOptions

_lock = threading.Lock()
_process = 0
"""Counts forks that led here: cheaper to look at than the number of the process."""


def _after_fork() -> None:
    global _lock, _process  # noqa: PLW0603 - what the parent's threads held is held for ever
    _lock = threading.Lock()
    _process += 1


os.register_at_fork(after_in_child=_after_fork)


class Engine:
    """Starts with the first request; after a fork, the child starts its own, and leaves the parent's alone."""

    def __init__(self, options: ClientOptions, of: str) -> None:
        self.options = options
        self.of = of
        self._process = _process
        self._changes = -1
        self._unmocked: _native.Client | None = None
        self._mocked: tuple[object, _native.Client] | None = None
        self._native = self._keep_up()
        self.is_closed: bool = False

    @property
    def process(self) -> int:
        """The process that it is in, by the forks that led there."""
        return _process

    @property
    def native(self) -> _native.Client:
        """The engine's own.

        Raises:
            RuntimeError: It is closed.
        """
        if self.is_closed:
            self.refuse()
        if self._changes != _mocks.changes:
            self._native = self._keep_up()
        return self._native

    @property
    def changes(self) -> int:
        """While it is the same, `native` is, too."""
        return _mocks.changes

    def _keep_up(self) -> _native.Client:
        """The engine's own for this process, and for the mock that is in force."""
        with _lock:
            changes, mock = _mocks.changes, _mocks.active()
            if self._process != _process:
                # What is dropped here was the parent's: it is leaked, not ended.
                self._process, self._unmocked, self._mocked = _process, None, None
            if mock is None:
                self._mocked = None
                native = self._unmocked = self._unmocked or _native.Client(self.options)
            else:
                if self._mocked is None or self._mocked[0] is not mock:
                    self._mocked = mock, _native.Client(self.options)
                native = self._mocked[1]
            # In this order: a thread that sees that nothing has changed sees this one, too.
            self._native = native
            self._changes = changes
            return native

    def refuse(self) -> NoReturn:
        """Raises the error of a closed client."""
        raise RuntimeError(f"the {self.of} is closed: it makes no more requests")

    def close(self) -> None:
        """Ends what is in flight. Again: nothing."""
        if not self.is_closed:
            self.is_closed = True
            self._native.close()
            if self._unmocked is not None:
                self._unmocked.close()

    def statistics(self) -> Snapshot:
        """How much it has done."""
        told = (self._native if self.is_closed else self.native).snapshot()
        return Snapshot.from_json(told) if told is not None else self.refuse()

    def shown(self, name: str, base_url: str) -> str:
        """A client of that name, as `repr` has it."""
        of = f" of {without_user(base_url)}" if base_url else ""
        return f"<headgate.{name}{of}{' (closed)' if self.is_closed else ''}>"

    def shown_as_table(self, title: str) -> str:
        """The same in a notebook, with what it has done."""
        return table(title, how_far(self.statistics(), "requests"))
