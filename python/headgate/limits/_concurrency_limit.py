"""A concurrency limit that tasks share, and that can be resized while they run."""

import asyncio
from dataclasses import dataclass
from types import TracebackType
from typing import Final

from headgate._checks import check, whole
from headgate.limits._wait_queue import WaitQueue

_SLOTS: Final = whole(1)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConcurrencyStatistics:
    """The counters of a `ConcurrencyLimit`.

    >>> limit = headgate.ConcurrencyLimit(2)
    >>> async with limit:
    ...     print(limit.statistics().in_use, limit.statistics().most_in_use)
    1 1

    Attributes:
        limit: Number of slots.
        in_use: Slots that are acquired; more than `limit` for a while after it was reduced.
        most_in_use: The largest number of slots that were ever acquired at once.
        waiting: Callers that wait now, each for one or several slots.
        granted: How often slots were granted, at once or after waiting.
        waited_s: Seconds that callers have waited in total, without those that still wait.
    """

    __module__ = "headgate"

    limit: int
    in_use: int
    most_in_use: int
    waiting: int
    granted: int
    waited_s: float


class ConcurrencyLimit(WaitQueue[int]):
    """A number of slots that tasks share: a task that finds no free slot waits for one.

        limit = ConcurrencyLimit(100)

        async with limit:
            await work()

    First come, first served, whatever the weights: a caller that needs many slots is not overtaken forever by callers
    that need few. Several loops, functions and maps can share one limit, and `resize` changes it while they run.

    It belongs to one event loop at a time. After that loop has ended, another one can use it; slots that tasks of the
    first loop hadn't released stay acquired. It is not thread-safe; only `statistics` can be called from any thread.
    """

    __module__ = "headgate"

    __slots__ = ("_in_use", "_limit", "_most_in_use", "_scheduled")

    def __init__(self, limit: int) -> None:
        """Creates a limit whose slots are all free.

        Args:
            limit: Number of slots, at least 1.

        Raises:
            TypeError: If `limit` is no integer.
            ValueError: If `limit` is below 1.
        """
        super().__init__()
        check("limit", limit, _SLOTS)
        self._limit = limit
        self._in_use = 0
        self._most_in_use = 0
        self._scheduled: asyncio.Handle | None = None

    @property
    def limit(self) -> int:
        """Number of slots; `resize` changes it."""
        return self._limit

    @property
    def in_use(self) -> int:
        """Slots that are acquired; more than `limit` for a while after it was reduced."""
        return self._in_use

    def resize(self, limit: int) -> None:
        """Changes the number of slots.

        Additional slots go to waiting callers at once. Fewer slots stop nothing that runs: nothing new starts until
        enough slots are released. A caller that waits for more slots than there are now gets the `ValueError` of
        `acquire`.

        >>> limit = headgate.ConcurrencyLimit(2)
        >>> limit.resize(3)
        >>> limit.limit
        3

        Args:
            limit: Number of slots from now on, at least 1.

        Raises:
            TypeError: If `limit` is no integer.
            ValueError: If `limit` is below 1.
        """
        check("limit", limit, _SLOTS)
        self._limit = limit
        self._fail_above(limit, f"n is above the limit, which was made {limit}: it could never be allowed")
        self._serve()

    def try_acquire(self, n: int = 1) -> bool:
        """Acquires `n` slots if they are free and no task waits; doesn't wait itself.

        >>> limit = headgate.ConcurrencyLimit(2)
        >>> limit.try_acquire(2), limit.try_acquire()
        (True, False)

        Args:
            n: Slots to acquire, all or none.

        Returns:
            Whether they were acquired; then they must be released.

        Raises:
            TypeError: If `n` is no integer.
            ValueError: If `n` is below 1, or above the limit.
            RuntimeError: If it is in use in another event loop.
        """
        # The common case costs two comparisons; `_check` raises the error, if there is one.
        if type(n) is not int or not 0 < n <= self._limit:
            self._check(n)
        self._check_loop()
        if (self._waiters and self._has_waiters()) or not self._try_take(n):
            return False
        self._granted += 1
        return True

    async def acquire(self, n: int = 1) -> None:
        """Acquires `n` slots as soon as they are free and all earlier waiters have been served.

        If it is cancelled, it acquires nothing.

        >>> limit = headgate.ConcurrencyLimit(5)
        >>> await limit.acquire(3)
        >>> limit
        <ConcurrencyLimit: 3 of 5 in use, 0 waiting>

        Args:
            n: Slots to acquire, all or none; they must be released.

        Raises:
            TypeError: If `n` is no integer.
            ValueError: If `n` is below 1, or above the limit, which `resize` can also cause while it waits.
            RuntimeError: If it is in use in another event loop.
        """
        if not self.try_acquire(n):
            await self._wait(n)

    def release(self, n: int = 1) -> None:
        """Releases `n` slots; waiting callers get them before this returns.

        >>> limit = headgate.ConcurrencyLimit(5)
        >>> await limit.acquire(3)
        >>> limit.release(3)
        >>> limit.in_use
        0

        Args:
            n: Slots that were acquired before.

        Raises:
            TypeError: If `n` is no integer.
            ValueError: If `n` is below 1, or more than are in use.
        """
        if type(n) is not int or n < 1:
            check("n", n, _SLOTS)
        if n > self._in_use:
            raise ValueError(f"n is {n}, but {self._in_use} slots are in use: release once what was acquired once")
        self._in_use -= n
        if self._waiters:
            self._serve()

    async def __aenter__(self) -> None:
        if not self.try_acquire():
            await self._wait(1)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def statistics(self) -> ConcurrencyStatistics:
        """Returns the counters. Can be called from any thread.

        >>> limit = headgate.ConcurrencyLimit(2)
        >>> limit.try_acquire(2), limit.statistics().in_use
        (True, 2)
        """
        return ConcurrencyStatistics(
            limit=self._limit,
            in_use=self._in_use,
            most_in_use=self._most_in_use,
            waiting=len(self._waiters),
            granted=self._granted,
            waited_s=self._waited_s,
        )

    def __repr__(self) -> str:
        return f"<ConcurrencyLimit: {self._in_use} of {self._limit} in use, {len(self._waiters)} waiting>"

    def _check_loop(self) -> None:
        try:
            is_known = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return  # without an event loop, nothing can wait
        if not is_known:
            self._bind_to_running_loop()

    def _check(self, amount: int) -> None:
        check("n", amount, _SLOTS)
        if amount > self._limit:
            raise ValueError(f"n is {amount}, but the limit is {self._limit}: it could never be allowed")

    def _try_take(self, amount: int) -> bool:
        in_use = self._in_use + amount
        if in_use > self._limit:
            return False
        self._in_use = in_use
        if in_use > self._most_in_use:  # noqa: PLR1730 - max() takes three times as long
            self._most_in_use = in_use
        return True

    def _release_unused(self, amount: int) -> None:
        self.release(amount)

    def _schedule_serving(self) -> None:
        if self._serving or self._scheduled is not None or self._loop is None or self._loop.is_closed():
            return
        first = self._first()
        if first is not None and self._in_use + first.amount <= self._limit:
            self._scheduled = self._loop.call_soon(self._serve_now)

    def _serve_now(self) -> None:
        self._scheduled = None
        self._serve()

    def _on_new_loop(self) -> None:
        self._scheduled = None
