"""A rate limiter: a token bucket, with weights.

One number represents the bucket, the time at which it will be full. That is the generic cell rate algorithm
(ITU-T I.371, appendix I), a token bucket without a timer that refills it. `Bucket` decides, and gets the time as an
argument; `Rate` knows the event loop and the waiters.

Timers are late: those of epoll by up to 1 ms, and any timer by the duration of a callback before it. Counting from a
late wake-up would add that to every interval, and turn 5,000 starts a second into 1,000. So waiters that a late timer
serves are charged at the time for which it was set, and so are the tasks that it wakes; by at most `MAX_LATE_S`.
"""

import asyncio
import math
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import Final

from headgate._checks import check, duration, number, seconds_of
from headgate._rate_text import rate_call
from headgate.limits._wait_queue import Waiter, WaitQueue

_FINITE: Final = number(lambda amount: 0 < amount < math.inf, "above 0 and finite")
_PER: Final = duration(lambda seconds: 0 < seconds < math.inf, "above 0 and finite")
_COST: Final = number(lambda cost: cost >= 0, "at least 0")

MAX_LATE_S: Final = 0.010
"""How much of a timer's lateness is compensated."""

COARSE_TIMER_S: Final = 0.001
"""uvloop rounds timers to whole milliseconds, so that they may also fire early."""

SHORTEST_WAIT_S: Final = 1e-9
"""A shorter wait counts as none: a timer for it might not advance the clock."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RateStatistics:
    """The counters of a `Rate`.

    >>> rate = headgate.Rate(100, burst=10)
    >>> await rate.acquire(7)
    >>> rate.statistics().granted, rate.statistics().granted_cost
    (1, 7)

    Attributes:
        amount: Cost that may be spent in `per_s` seconds.
        per_s: Seconds in which `amount` may be spent.
        burst: Cost that may be spent at once.
        waiting: Callers that wait now.
        granted: How often a cost was granted, at once or after waiting.
        granted_cost: The sum of these costs.
        waited_s: Seconds that callers have waited in total, without those that still wait.
    """

    __module__ = "headgate"

    amount: float
    per_s: float
    burst: float
    waiting: int
    granted: int
    granted_cost: float
    waited_s: float


class Bucket:
    """Decides how long a cost has to wait. Times are seconds on any monotonic clock."""

    __slots__ = ("_full_at_s", "_interval_s", "burst")

    def __init__(self, interval_s: float, burst: float) -> None:
        """Creates a full bucket that gains a cost of 1 every `interval_s`."""
        self._interval_s = interval_s
        self._full_at_s = -math.inf
        self.burst = burst

    def wait_s(self, now_s: float, cost: float) -> float:
        """Returns the seconds until the bucket holds the cost, which must be at most `burst`; 0 if it does."""
        wait_s = self._full_at_s + (cost - self.burst) * self._interval_s - now_s
        # The second condition is for a clock whose value is so large that adding the wait does not change it.
        return 0.0 if wait_s < SHORTEST_WAIT_S or now_s + wait_s == now_s else wait_s

    def take(self, now_s: float, cost: float) -> None:
        """Removes the cost from the bucket."""
        from_s = self._full_at_s if self._full_at_s > now_s else now_s  # noqa: FURB136 - max() takes three times as long
        self._full_at_s = from_s + cost * self._interval_s

    def holds(self, now_s: float) -> float:
        """Returns the cost that the bucket holds."""
        lacks = max(0.0, self._full_at_s - now_s) / self._interval_s if self._interval_s else 0.0
        return max(0.0, self.burst - lacks)

    def changed(self, now_s: float, interval_s: float, burst: float) -> "Bucket":
        """Returns a bucket with other parameters that holds the same cost, up to its `burst`."""
        bucket = Bucket(interval_s, burst)
        bucket._full_at_s = now_s + (burst - min(burst, self.holds(now_s))) * interval_s
        return bucket


class Rate(WaitQueue[float]):
    """A rate limiter: a token bucket that fills steadily and never holds more than `burst`.

        rate = Rate(100, per=1)

        async with rate:
            await request()

        await rate.acquire(tokens)  # costs can differ, if `burst` is at least the highest

    In any period of `w` seconds, at most `burst + amount / per * (w + 0.010)` is granted. The 10 ms compensate for
    timers that fire late, so that the mean rate is kept; with exact timers it would be `w` alone. This counts when the
    cost is granted: a slow callback can delay what happens next.

    First come, first served, whatever the costs. A rate limits starts and knows nothing about ends: there is nothing to
    release.

    It serves one event loop at a time. After that loop has ended, it can serve another one, with a full bucket. It is
    not thread-safe; only `statistics` can be called from any thread.
    """

    __module__ = "headgate"

    __slots__ = ("_amount", "_as_of_s", "_bucket", "_due_s", "_granted_cost", "_per_s", "_timed_for", "_timer")

    def __init__(self, amount: float, *, per: float | timedelta = 1.0, burst: float = 1) -> None:
        """Creates a rate whose bucket is full.

        Args:
            amount: Cost that may be spent in `per` seconds, above 0.
            per: Seconds, or a `timedelta`, in which `amount` may be spent, above 0: `Rate(90_000, per=60)`.
            burst: Cost that may be spent at once after a pause, above 0. It is also the highest possible cost. 1 spaces
                starts evenly; `amount` allows everything for `per` at its beginning.

        Raises:
            TypeError: If one of them is not a number, and `per` no `timedelta`.
            ValueError: If one of them is not above 0 or not finite.
        """
        super().__init__()
        self._bucket = Bucket(_interval_s(amount, per, burst), burst)
        self._amount = amount
        self._per_s: float = seconds_of(per)
        self._granted_cost: float = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timed_for: Waiter[float] | None = None
        self._due_s = 0.0
        self._as_of_s: float | None = None

    def change(self, amount: float, *, per: float | timedelta | None = None, burst: float | None = None) -> None:
        """Changes the rate from now on, also for waiting callers.

        The bucket keeps what it holds, up to the new `burst`. A caller that waits for a cost above the new `burst` gets
        the `ValueError` of `acquire`.

        >>> rate = headgate.Rate(100)
        >>> rate.change(90_000, per=60, burst=5000)
        >>> rate.statistics().burst
        5000

        Args:
            amount: Cost that may be spent in `per` seconds, above 0.
            per: Seconds, or a `timedelta`, in which `amount` may be spent, above 0; `None` leaves them as they are.
            burst: Cost that may be spent at once; `None` leaves it as it is.

        Raises:
            TypeError: If one of them is not a number, and `per` no `timedelta`.
            ValueError: If one of them is not above 0 or not finite.
        """
        per = self._per_s if per is None else per
        burst = self._bucket.burst if burst is None else burst
        interval_s = _interval_s(amount, per, burst)
        self._amount = amount
        self._per_s = seconds_of(per)
        if self._loop is None or self._loop.is_closed():
            self._bucket = Bucket(interval_s, burst)
            return
        self._bucket = self._bucket.changed(self._loop.time(), interval_s, burst)
        self._fail_above(burst, f"cost is above burst, which was made {burst:g}: it could never be allowed")
        if not self._serving:
            self._set_timer(self._first())

    def try_acquire(self, cost: float = 1) -> bool:
        """Spends the cost if the bucket holds it and no task waits; doesn't wait itself.

        >>> async def try_twice(rate):
        ...     return rate.try_acquire(), rate.try_acquire()
        >>> await try_twice(headgate.Rate(1, per=3600))
        (True, False)

        Args:
            cost: What to spend, at most `burst`; 0 is granted whenever no task waits.

        Returns:
            Whether it was spent.

        Raises:
            TypeError: If `cost` is not a number.
            ValueError: If `cost` is below 0, not a number, or above `burst`.
            RuntimeError: If there is no running event loop, or another one uses this rate.
        """
        # The common case costs two comparisons; `_check` raises the error, if there is one.
        if (type(cost) is not int and type(cost) is not float) or not 0 <= cost <= self._bucket.burst:
            self._check(cost)
        if asyncio.get_running_loop() is not self._loop:
            self._bind_to_running_loop()
        if self._waiters or not self._try_take(cost):
            return False
        self._granted += 1
        return True

    async def acquire(self, cost: float = 1) -> None:
        """Spends the cost as soon as the bucket holds it and all earlier waiters have been served.

        Cancelling it while it waits spends nothing. If it is cancelled in the same iteration of the event loop in which
        the cost was spent for it, the cost stays spent.

        >>> rate = headgate.Rate(1000, burst=500)
        >>> await rate.acquire(300)

        Args:
            cost: What to spend, at most `burst`; 0 is granted when all earlier waiters have been served.

        Raises:
            TypeError: If `cost` is not a number.
            ValueError: If `cost` is below 0, not a number, or above `burst`, which `change` can also cause while it
                waits.
            RuntimeError: If another event loop uses this rate.
        """
        if not self.try_acquire(cost):
            await self._wait(cost)

    async def __aenter__(self) -> None:
        if not self.try_acquire():
            await self._wait(1)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def statistics(self) -> RateStatistics:
        """Returns the counters. Can be called from any thread.

        >>> rate = headgate.Rate(100, burst=10)
        >>> await rate.acquire(7)
        >>> rate.statistics().granted_cost
        7
        """
        return RateStatistics(
            amount=self._amount,
            per_s=self._per_s,
            burst=self._bucket.burst,
            waiting=len(self._waiters),
            granted=self._granted,
            granted_cost=self._granted_cost,
            waited_s=self._waited_s,
        )

    def __repr__(self) -> str:
        burst = self._bucket.burst
        return f"<Rate: {self._amount:g} per {self._per_s:g} s, burst {burst:g}, {len(self._waiters)} waiting>"

    def _check(self, amount: float) -> None:
        if type(amount) is not float or not amount >= 0:  # saves a call for each item
            check("cost", amount, _COST)
        if amount > self._bucket.burst:
            raise ValueError(
                f"cost is {amount:g}, but burst is {self._bucket.burst:g}: it could never be allowed; raise burst"
            )

    def _try_take(self, amount: float) -> bool:
        now_s = self._now_s()
        if self._bucket.wait_s(now_s, amount):
            return False
        self._bucket.take(now_s if self._as_of_s is None else max(self._as_of_s, now_s - MAX_LATE_S), amount)
        self._granted_cost += amount
        return True

    def _release_unused(self, amount: float) -> None:
        """Does nothing: a cost stays spent, because the timer of another waiter may depend on it."""

    def _schedule_serving(self) -> None:
        first = self._first()
        if not self._serving and first is not self._timed_for:
            self._set_timer(first)

    def _set_timer(self, first: Waiter[float] | None, spare_s: float = 0.0) -> None:
        """Sets the only timer, for the first waiter of the queue."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._timed_for = None, first
        if first is None or self._loop is None or self._loop.is_closed():
            return
        now_s = self._loop.time()
        wait_s = self._bucket.wait_s(now_s, first.amount)
        self._due_s = now_s if self._as_of_s is None or wait_s else self._as_of_s
        self._due_s += wait_s
        self._timer = self._loop.call_later(wait_s + spare_s, self._serve_due)

    def _serve_due(self) -> None:
        late_s = self._now_s() - self._due_s
        if late_s <= -SHORTEST_WAIT_S:
            self._set_timer(self._first(), COARSE_TIMER_S)
            return
        self._timer = self._timed_for = None
        if late_s >= SHORTEST_WAIT_S:
            self._as_of_s = self._due_s
        self._serve()
        if self._as_of_s is not None:
            # It runs after the tasks that were woken just now.
            self._bind_to_running_loop().call_soon(self._clear_lateness)

    def _clear_lateness(self) -> None:
        self._as_of_s = None

    def _on_new_loop(self) -> None:
        self._bucket = Bucket(_interval_s(self._amount, self._per_s, self._bucket.burst), self._bucket.burst)
        self._timer = self._timed_for = self._as_of_s = None


def _amount(value: object) -> None:
    if isinstance(value, str):
        raise TypeError(f"must be a number, not str: write {rate_call(value)}")
    _FINITE(value)


def _interval_s(amount: float, per: float | timedelta, burst: float) -> float:
    """Returns the time in which the bucket gains a cost of 1."""
    for name, value, rule in (("amount", amount, _amount), ("per", per, _PER), ("burst", burst, _FINITE)):
        check(name, value, rule)
    interval_s: float = seconds_of(per) / amount
    if not math.isfinite(interval_s * max(burst, 1)):
        raise ValueError("amount, per and burst are too far apart: the bucket would never be full")
    return interval_s
