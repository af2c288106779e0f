"""Failed attempts that wait until they are tried again: a heap, and one timer for the first that is due."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import Final

from headgate._task_entry import Entry

ON_TIME_S: Final = 1e-9
"""What a timer may come early by, through the rounding of floats."""


class Pauses:
    """Entries by when they are due. What bounds them is who adds them."""

    __slots__ = ("_heap", "_is_due", "_numbers", "_timer", "due")

    def __init__(self, is_due: Callable[[], None]) -> None:
        """Makes one without any; `is_due` is called when there is something in `due`."""
        self._heap: list[tuple[float, int, Entry]] = []
        self._numbers = count()  # entries cannot be compared
        self._timer: asyncio.TimerHandle | None = None
        self._is_due = is_due
        self.due: deque[Entry] = deque()

    def __len__(self) -> int:
        return len(self._heap) + len(self.due)

    def add(self, entry: Entry, delay_s: float, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        """Lets it wait."""
        heapq.heappush(self._heap, (loop.time() + delay_s, next(self._numbers), entry))
        if self._heap[0][2] is entry:
            self._set_timer(loop, context)

    def clear(self) -> None:
        """Lets go of all of them."""
        self._heap.clear()
        self.due.clear()
        self._stop_timer()

    def _set_timer(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._stop_timer()
        if self._heap:
            self._timer = loop.call_at(self._heap[0][0], self._time_has_come, loop, context, context=context)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_has_come(self, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        now_s = loop.time() + ON_TIME_S
        while self._heap and self._heap[0][0] <= now_s:
            self.due.append(heapq.heappop(self._heap)[2])
        self._set_timer(loop, context)
        self._is_due()
