"""Streams that are open: if one thread or task holds as many as may be, another one would never start."""

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

    @contextmanager
    def one_more(self, holder: int, of: str) -> Iterator[None]:
        """Counts one more, until the block is left.

        Raises:
            RuntimeError: All that may be open at once are open here.
        """
        holder_here = (self._engine.process, holder)
        held = self._open.get(holder_here, 0)
        if held >= self._most:
            raise RuntimeError(
                f"this {of} has {held} streams open, and the client makes {self._most} requests at a time: another one"
                " would never start; leave the block of one of them first, or give the client a higher concurrency"
            )
        self._open[holder_here] = held + 1
        try:
            yield
        finally:
            left = self._open[holder_here] - 1
            if left:
                self._open[holder_here] = left
            else:
                del self._open[holder_here]
