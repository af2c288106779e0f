"""Streams that are open: if one thread or task holds as many as may be, another one would never start."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.client._engine import Engine


class OpenStreams:
    """Those of one client, by the thread or task that has opened them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._most: int = engine.options.concurrency
        # Who has none open is not in it.
        self._open: dict[tuple[int, int], int] = {}
        # Of each process: a fork has none of the threads that may hold it.
        self._locks: dict[int, threading.RLock] = {}

    @contextmanager
    def one_more(self, holder: int, of: str) -> Iterator[None]:
        """Counts one more, until the block is left.

        Raises:
            RuntimeError: All that may be open at once are open here.
        """
        holder_here = (self._engine.process, holder)
        with self._lock:
            held = self._open.get(holder_here, 0)
            if held < self._most:
                self._open[holder_here] = held + 1
        if held >= self._most:
            raise RuntimeError(
                f"this {of} has {held} streams open, and the client makes {self._most} requests at a time: another one"
                " would never start; leave the block of one of them first, or give the client a higher concurrency"
            )
        try:
            yield
        finally:
            # Another thread may leave the block than has entered it.
            with self._lock:
                left = self._open[holder_here] - 1
                if left:
                    self._open[holder_here] = left
                else:
                    del self._open[holder_here]

    @property
    def _lock(self) -> "threading.RLock":
        return self._locks.setdefault(self._engine.process, threading.RLock())
