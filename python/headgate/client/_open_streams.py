"""The bound of open streams."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.client._engine import Engine


class OpenStreams:
    """Counts the open streams of a client by the thread or task that opened them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._max_open: int = engine.options.concurrency
        # It has no entries for threads and tasks without open streams.
        self._open: dict[tuple[int, int], int] = {}
        # One for each process, because a fork has none of the threads that may hold the parent's.
        self._locks: dict[int, threading.RLock] = {}

    @contextmanager
    def counted(self, holder: int, of: str) -> Iterator[None]:
        """Counts one more stream until the block is left.

        Raises:
            RuntimeError: The holder has as many streams open as the client makes requests at a time.
        """
        holder_here = (self._engine.process, holder)
        with self._lock:
            open_here = self._open.get(holder_here, 0)
            if open_here < self._max_open:
                self._open[holder_here] = open_here + 1
        if open_here >= self._max_open:
            raise RuntimeError(
                f"this {of} has {open_here} streams open, and the client makes {self._max_open} requests at a time:"
                " another one would never start; leave the block of one of them first, or give the client a higher"
                " concurrency"
            )
        try:
            yield
        finally:
            # The thread that leaves the block may not be the one that entered it.
            with self._lock:
                remaining = self._open[holder_here] - 1
                if remaining:
                    self._open[holder_here] = remaining
                else:
                    del self._open[holder_here]

    @property
    def _lock(self) -> "threading.RLock":
        return self._locks.setdefault(self._engine.process, threading.RLock())
