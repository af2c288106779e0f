"""Causes that delay the start of an item (its key, a slot, the rate, the backoff of a retry), and attempt timeouts."""

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
    """An item and its progress."""

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
    """Admits at most `per_key` items of one key; more wait, in their order. A key without items is removed."""

    def __init__(self, per_key: int) -> None:
        self._per_key = per_key
        self._admitted: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, deque[Entry]] = {}
        self._newly_admitted: deque[Entry] = deque()  # after they waited
        self.waiting = 0
        """How many items wait, or are newly admitted and not yet popped."""

    def enter(self, entry: Entry) -> bool:
        """Admits an item or queues it. Returns whether it was admitted."""
        admitted = self._admitted.get(entry.key, 0)
        if admitted < self._per_key:
            self._admitted[entry.key] = admitted + 1
            return True
        self._waiting.setdefault(entry.key, deque()).append(entry)
        self.waiting += 1
        return False

    def leave(self, key: Hashable) -> None:
        """Frees a slot of the key, and admits the next item that waits for it."""
        waiting = self._waiting.get(key)
        if waiting is not None:
            self._newly_admitted.append(waiting.popleft())
            if not waiting:
                del self._waiting[key]
        elif self._admitted[key] > 1:
            self._admitted[key] -= 1
        else:
            del self._admitted[key]

    def pop_admitted(self) -> Entry | None:
        """Removes and returns an item that waited and is now admitted."""
        if not self._newly_admitted:
            return None
        self.waiting -= 1
        return self._newly_admitted.popleft()

    def drop(self, is_match: Callable[[Entry], bool]) -> list[Entry]:
        """Removes and returns the matching items that wait."""
        dropped: list[Entry] = []
        for key, waiting in tuple(self._waiting.items()):
            dropped += filter(is_match, waiting)
            self._waiting[key] = deque(entry for entry in waiting if not is_match(entry))
            if not self._waiting[key]:
                del self._waiting[key]
        newly_admitted, self._newly_admitted = self._newly_admitted, deque()
        for entry in newly_admitted:
            if is_match(entry):
                dropped.append(entry)
                self.leave(entry.key)
            else:
                self._newly_admitted.append(entry)
        self.waiting -= len(dropped)
        return dropped


class Admission:
    """Admits one item after another: a slot of a shared limit, then the rate.

    Only one item waits here, and later items wait for it: a map has only one waiter in the queue of a shared limit or
    rate.

    Attributes:
        entry: The item that waits here.
    """

    __slots__ = ("_amount", "_cost", "_rate", "_shared", "_waiter", "entry")

    def __init__(self, shared: ConcurrencyLimit | None, rate: Rate | None, cost: Callable[[Any], float] | None) -> None:
        self.entry: Entry | None = None
        self._shared = shared
        self._rate = rate
        self._cost = cost
        self._amount = 1.0  # tokens of the rate that the item needs
        self._waiter: Waiter[Any] | None = None  # in the queue of the limit or the rate

    def try_admit(self, entry: Entry) -> bool:
        """Acquires a slot and a token for the item if they are free. Returns whether it has both.

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
                return False  # `cost` has stopped the map, and this item stays unstarted; or the item must wait
            entry.has_token = True
        return True

    def wait(self, slot_granted: Callable[[], None], token_granted: Callable[[], None]) -> None:
        """Joins the queue of the exhausted limit or rate, which calls the function for it when it grants a unit."""
        if self.entry is None or self._waiter is not None:
            return
        if self._shared is not None and not self.entry.has_slot:
            self._waiter = self._shared.when_granted(1, partial(self._slot_granted, slot_granted))
        elif self._rate is not None:
            self._waiter = self._rate.when_granted(self._amount, partial(self._token_granted, token_granted))

    def release(self, entry: Entry) -> None:
        """Releases the slot of an item."""
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
            # An error means that the rate was changed and can never allow this cost. The next attempt raises it.
            self.entry.has_token = error is None
            retry()


_ON_TIME_S: Final = 1e-9
"""How early a timer may fire because of rounded floats."""


class AttemptTimeout:
    """Cancels attempts that take too long. One timer is enough, because they time out in the order of their starts."""

    __slots__ = ("_running", "_timeout_s", "_timer")

    def __init__(self, timeout_s: float, running: dict[asyncio.Future[Any], Entry]) -> None:
        """Creates the timeout for attempts in `running`, which are in the order of their starts."""
        self._timeout_s = timeout_s
        self._running = running
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, entry: Entry, clock: CallClock, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        """Sets the timer unless an earlier attempt has set it."""
        if self._timer is None:
            left_s = entry.began_s + self._timeout_s - clock.now_s()
            self._timer = loop.call_later(left_s, self._cancel_late, clock, loop, context, context=context)

    def stop(self) -> None:
        """Stops the timer. `watch` may set it again: a source that stopped its own map may still yield an item."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def error(self, error: BaseException) -> BaseException:
        """Returns the error of a late attempt: `TimeoutError`, unless the call raised another when it was cancelled."""
        if not isinstance(error, asyncio.CancelledError):
            return error
        late = TimeoutError(f"the attempt took longer than timeout={self._timeout_s}")
        late.__cause__ = error
        return late

    def _cancel_late(self, clock: CallClock, loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._timer = None
        latest_s = clock.now_s() + _ON_TIME_S - self._timeout_s
        late: list[asyncio.Future[Any]] = []
        for task, entry in self._running.items():
            if entry.began_s > latest_s:
                self.watch(entry, clock, loop, context)  # also if the clock was paused since the timer was set
                break
            if not entry.is_late:
                entry.is_late = True
                late.append(task)
        for task in late:
            task.cancel()


class RetryQueue:
    """A queue of items that wait for their next attempt. The caller bounds it."""

    __slots__ = ("_heap", "_numbers", "_timer", "due")

    def __init__(self) -> None:
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
        on_due: Callable[[], None],
        loop: asyncio.AbstractEventLoop,
        context: Context,
    ) -> None:
        """Adds an item; `on_due` is called when `due` contains an item."""
        heapq.heappush(self._heap, (loop.time() + delay_s, next(self._numbers), entry))
        if self._heap[0][2] is entry:
            self._set_timer(on_due, loop, context)

    def drop(self, is_match: Callable[[Entry], bool]) -> list[Entry]:
        """Removes and returns the matching items. A timer that was set for one of them finds nothing due."""
        dropped = [*filter(is_match, self.due), *(entry for *_, entry in self._heap if is_match(entry))]
        self.due = deque(entry for entry in self.due if not is_match(entry))
        self._heap = [pause for pause in self._heap if not is_match(pause[2])]
        heapq.heapify(self._heap)
        if not self._heap:
            self._stop_timer()
        return dropped

    def _set_timer(self, on_due: Callable[[], None], loop: asyncio.AbstractEventLoop, context: Context) -> None:
        self._stop_timer()
        if self._heap:
            self._timer = loop.call_at(self._heap[0][0], self._on_timer, on_due, loop, context, context=context)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timer(self, on_due: Callable[[], None], loop: asyncio.AbstractEventLoop, context: Context) -> None:
        now_s = loop.time() + _ON_TIME_S
        while self._heap and self._heap[0][0] <= now_s:
            self.due.append(heapq.heappop(self._heap)[2])
        self._set_timer(on_due, loop, context)
        on_due()
