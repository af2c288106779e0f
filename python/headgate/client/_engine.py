"""The engine of a client: one in each process that uses it."""

import os
import threading
from typing import Final, NoReturn

from headgate import _native
from headgate._html import table
from headgate._summary import Snapshot, how_far
from headgate._url_user import without_user
from headgate.client._client_options import ClientOptions

LOOK_S: Final = 0.1
"""Whoever has waited so long has others let go of memory that the engine may wait for."""

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
        self._native = _native.Client(options)
        self._process = _process
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
        if self._process != _process:
            with _lock:
                if self._process != _process:
                    # What is dropped here was the parent's: it is leaked, not ended.
                    self._native = _native.Client(self.options)
                    self._process = _process
        return self._native

    def refuse(self) -> NoReturn:
        """Raises what who uses a closed client is told."""
        raise RuntimeError(f"the {self.of} is closed: it makes no more requests")

    def close(self) -> None:
        """Ends what is in flight. Again: nothing."""
        if not self.is_closed:
            self.is_closed = True
            self._native.close()

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
