"""What delays the start of an item: its key, a slot, the rate, the pause before a retry; and what times an attempt."""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Hashable
from contextvars import Context
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.tasks._loop import CallClock

if TYPE_CHECKING:
    from datetime import datetime

    from headgate.limits._wait_queue import Waiter


class Entry:
    """An item, and how far it is."""

    __slots__ = ("attempts", "began_s", "has_slot", "has_token", "index", "is_late", "item", "key", "started_at")

    def __init__(self, index: int, item: Any) -> None:  # noqa: ANN401 - the user's type
        self.index = index
        self.item = item
        self.key: Hashable = None
        self.has_slot = False
        self.has_token = False
        self.is_late = False
        self.attempts = 0
        self.began_s = 0.0
        self.started_at: datetime | None = None


class KeyLimit:
    """Admits at most so many items of one key; more wait, in their order. A key without items is forgotten."""

    def __init__(self, per_key: int) -> None:
        self._per_key = per_key
        self._inside: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[Entry]] = {}
        self._freed: deque[Entry] = deque()  # have waited, and are admitted now
        self.waiting = 0
        """How many wait, or are freed and not yet taken."""

    def enter(self, entry: Entry) -> bool:
        """Admits an item, or has it wait. Returns whether it is admitted."""
        inside = self._inside.get(entry.key, 0)
        if inside < self._per_key:
            self._inside[entry.key] = inside + 1
            return True
        self._waiting.setdefault(entry.key, deque()).append(entry)
        self.waiting += 1
        return False

    def leave(self, key: Hashable) -> None:
        """Frees a slot of the key, and admits the next item that waits for it."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            self._freed.append(waiting.popleft())
            if not waiting:
                del self._waiting[key]
        elif self._inside[key] > 1:
            self._inside[key] -= 1
        else:
            del self._inside[key]

    def pop_freed(self) -> Entry | None:
        """Removes and returns an item that has waited and is admitted now."""
        if not self._freed:
            return None
        self.waiting -= 1
        return self._freed.popleft()

    def drop(self, is_dropped: Callable[[Entry], bool]) -> list[Entry]:
        """Takes out those that wait and are meant."""
        dropped: list[Entry] = []
        for key, waiting in tuple(self._waiting.items()):
            dropped += filter(is_dropped, waiting)
            self._waiting[key] = deque(entry for entry in waiting if not is_dropped(entry))
            if not self._waiting[key]:
                del self._waiting[key]
        freed, self._freed = self._freed, deque()
        for entry in freed:
            if is_dropped(entry):
                dropped.append(entry)
                self.leave(entry.key)
            else:
                self._freed.append(entry)
        self.waiting -= len(dropped)
        return dropped


class Admission:
    """Admits one item after another: a slot of a shared limit, then the rate.

    Only one item waits here, so that a map has one waiter in the queue of a shared limit or rate; later items wait for
    it.

    Attributes:
        entry: The item that waits here.
    """

    __slots__ = ("_amount", "_cost", "_rate", "_shared", "_waiter", "entry")

    def __init__(self, shared: ConcurrencyLimit | None, rate: Rate | None, cost: Callable[[Any], float] | None) -> None:
        self.entry: Entry | None = None
        self._shared = shared
        self._rate = rate
        self._cost = cost
        self._amount = 1.0  # that it takes of the rate
        self._waiter: Waiter[Any] | None = None  # in the queue of the limit or the rate

    def try_admit(self, entry: Entry) -> bool:
        """Takes a slot and a token for the item, if they are free. Returns whether it has both.

        Raises:
            Exception: `cost` failed, or is more than the rate can ever allow.
        """
        if self._waiter is not None:
            return False
        if self._shared is not None and not entry.has_slot:
            if not self._shared.try_acquire():
                return False
            entry.has_slot = True
        if self._rate is not None and not entry.has_token:
            self._amount = 1.0 if self._cost is None else self._cost(entry.item)
            if self.entry is not entry or not self._rate.try_acquire(self._amount):
                return False  # `cost` has stopped the map, and this item is unstarted; or it has to wait
            entry.has_token = True
        return True

    def wait(self, slot_granted: Callable[[], None], token_granted: Callable[[], None]) -> None:
        """Joins the queue of the limit or the rate that has nothing free, which calls its function when it has."""
        if self.entry is None or self._waiter is not None:
            return
        if self._shared is not None and not self.entry.has_slot:
            self._waiter = self._shared.when_granted(1, partial(self._slot_granted, slot_granted))
        elif self._rate is not None:
            self._waiter = self._rate.when_granted(self._amount, partial(self._token_granted, token_granted))

    def release(self, entry: Entry) -> None:
        """Releases its slot."""
        entry.has_slot = False
        if self._shared is not None:
            self._shared.release()

    def leave(self) -> None:
        """Removes the item, and leaves the queue."""
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None
        self.entry = None

    def _slot_granted(self, retry: Callable[[], None], _error: ValueError | None) -> None:
        self._waiter = None
        if self.entry is not None:
            self.entry.has_slot = True
            retry()

    def _token_granted(self, retry: Callable[[], None], error: ValueError | None) -> None:
        self._waiter = None
        if self.entry is not None:
            # An error: the rate was changed, and can never allow this cost. The next attempt raises it.
            self.entry.has_token = error is None
            retry()


_ON_TIME_S: Final = 1e-9
"""What a timer may come early by, through the rounding of floats."""


class TimeLimit:
    """Cancels attempts that take too long. They begin in the order in which they are due: the first has the timer."""

    __slots__ = ("_running", "_timeout_s", "_timer")

    def __init__(self, timeout_s: float, running: dict[asyncio.Future[Any], Entry]) -> None:
        """Makes one for attempts in `running` in the order in which they began."""
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


class RetryTimer:
    """Failed attempts by when they are due to be tried again. The caller bounds them."""

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
