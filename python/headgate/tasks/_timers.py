"""The two timers of a paced flow: one for all attempts that run, and one for all that wait to be tried again."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable
from contextvars import Context
from itertools import count
from typing import Any, Final

from headgate.tasks._clock import CallClock
from headgate.tasks._entry import Entry

_ON_TIME_S: Final = 1e-9
"""What a timer may come early by, through the rounding of floats."""


class TimeLimit:
    """Cancels attempts that take too long. They begin in the order in which they are due: the first has the timer."""

    __slots__ = ("_running", "_timeout_s", "_timer")

    def __init__(self, timeout_s: float, running: dict[asyncio.Future[Any], Entry]) -> None:
        """Makes one for attempts that stand in `running` in the order in which they began."""
        self._timeout_s = timeout_s
        self._running = running
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, entry: Entry, clock: CallClock, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        """Sets the timer, if no earlier attempt has it."""
        if self._timer is None:
            left_s = entry.began_s + self._timeout_s - clock.now_s()
            self._timer = loop.call_later(left_s, self._cancel_late, clock, loop, context, context=context)

    def stop(self) -> None:
        """Stops the timer. `watch` may set it again: a source that stopped its own map may still give an item."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def error(self, error: BaseException) -> BaseException:
        """What a late attempt failed with: its being late, unless it made something else of the cancellation."""
        if not isinstance(error, asyncio.CancelledError):
            return error
        late = TimeoutError(f"the attempt took longer than timeout_s={self._timeout_s}")
        late.__cause__ = error
        return late

    def _cancel_late(self, clock: CallClock, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._timer = None
        latest_s = clock.now_s() + _ON_TIME_S - self._timeout_s
        late: list[asyncio.Future[Any]] = []
        for task, entry in self._running.items():
            if entry.began_s > latest_s:
                self.watch(entry, clock, loop, context)  # also if its time stood still since the timer was set
                break
            if not entry.is_late:
                entry.is_late = True
                late.append(task)
        for task in late:
            task.cancel()


class Pauses:
    """Failed attempts by when they are due to be tried again. What bounds them is who adds them."""

    __slots__ = ("_heap", "_numbers", "_timer", "due")

    def __init__(self) -> None:
        """Makes one without any."""
        self._heap: list[tuple[float, int, Entry]] = []
        self._numbers = count()  # entries can't be compared
        self._timer: asyncio.TimerHandle | None = None
        self.due: deque[Entry] = deque()

    def __len__(self) -> int:
        return len(self._heap) + len(self.due)

    def add(
        self,
        entry: Entry,
        delay_s: float,
        is_due: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        """Lets it wait; `is_due` is called when there is something in `due`."""
        heapq.heappush(self._heap, (loop.time() + delay_s, next(self._numbers), entry))
        if self._heap[0][2] is entry:
            self._set_timer(is_due, loop, context)

    def drop(self, is_dropped: Callable[[Entry], bool]) -> list[Entry]:
        """Takes out those that are meant. What the timer was set for may be gone then: it looks again."""
        dropped = [*filter(is_dropped, self.due), *(entry for *_, entry in self._heap if is_dropped(entry))]
        self.due = deque(entry for entry in self.due if not is_dropped(entry))
        self._heap = [pause for pause in self._heap if not is_dropped(pause[2])]
        heapq.heapify(self._heap)
        if not self._heap:
            self._stop_timer()
        return dropped

    def _set_timer(self, is_due: Callable[[], None], loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._stop_timer()
        if self._heap:
            self._timer = loop.call_at(self._heap[0][0], self._time_has_come, is_due, loop, context, context=context)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _time_has_come(self, is_due: Callable[[], None], loop: asyncio.AbstractEventLoop, context: Context) -> None:
        now_s = loop.time() + _ON_TIME_S
        while self._heap and self._heap[0][0] <= now_s:
            self.due.append(heapq.heappop(self._heap)[2])
        self._set_timer(is_due, loop, context)
        is_due()
