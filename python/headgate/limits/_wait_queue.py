"""The wait queue of a limit or a rate: first come, first served, whatever their weights.

Prior art: the waiters of `asyncio.Semaphore`, which had bugs of lost wake-ups and of newcomers that overtook waiters
(python/cpython issue 90155, python/asyncio issue 270); trio's `ParkingLot`, which hands over in order.

Guarantees:
  - The first waiter is served before all later ones, also if they need less. A newcomer is never served before waiters.
    (It may run before waiters that were served in the same iteration of the event loop: they have their amount, and
    continue in the next iteration.)
  - The queue takes the amount before the waiter runs: between the two, no other task can take it.
  - A waiter that is cancelled takes nothing. If it was served in the same iteration of the event loop, it releases the
    amount.
  - One iteration of the event loop serves at most the waiters that were in the queue when it began.

Cost: to join, to leave and to serve are O(1), from any position in the queue; no task and no timer for each waiter.

Not done here: `ConcurrencyLimit` and `Rate` decide in `_try_take` whether an amount is available, and know the time.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

from headgate._errors import OtherLoopError

Amount = TypeVar("Amount", bound=float)


class Waiter(Generic[Amount]):
    """A task or a callback that waits in a wait queue.

    Attributes:
        amount: The amount it waits for.
        granted: Whether the amount was taken for this waiter.
    """

    __slots__ = ("_call", "_future", "_queue", "amount", "granted", "joined_s")

    def __init__(
        self,
        queue: "WaitQueue[Amount]",
        amount: Amount,
        joined_s: float,
        *,
        call: Callable[[ValueError | None], None] | None = None,
        future: "asyncio.Future[None] | None" = None,
    ) -> None:
        self._queue = queue
        self._call = call
        self._future = future
        self.amount: Amount = amount
        self.joined_s: float = joined_s
        self.granted: bool = False

    def cancel(self) -> None:
        """Leaves the queue; does nothing if it was granted or refused before."""
        self._queue._leave(self)  # noqa: SLF001 - `Waiter` is a part of `WaitQueue`

    def is_waiting(self) -> bool:
        """Returns whether its task still waits. A cancelled task leaves the queue only in the loop's next iteration."""
        return self._future is None or not self._future.done()

    def settle(self, error: ValueError | None) -> None:
        """Ends the wait, with an error if there is one."""
        if self._call is not None:
            self._call(error)
        elif self._future is not None and not self._future.done():
            if error is None:
                self._future.set_result(None)
            else:
                self._future.set_exception(error)


class WaitQueue(ABC, Generic[Amount]):
    """The base of limits and rates. A queue belongs to one event loop at a time."""

    __slots__ = ("_granted", "_loop", "_serving", "_waited_s", "_waiters")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        # A plain dict finds its first entry in O(entries removed before it).
        self._waiters: OrderedDict[Waiter[Amount], None] = OrderedDict()
        self._serving = False
        self._granted = 0
        self._waited_s = 0.0

    @abstractmethod
    def _try_take(self, amount: Amount) -> bool:
        """Takes the amount if it is available. Returns whether it did."""

    @abstractmethod
    def _release_unused(self, amount: Amount) -> None:
        """Returns an amount that was granted to a waiter that will not use it."""

    @abstractmethod
    def _check(self, amount: Amount) -> None:
        """Raises an error for an amount that can never be granted."""

    @abstractmethod
    def _schedule_serving(self) -> None:
        """Schedules serving the queue for when the first waiter, which may have changed, can be served."""

    @abstractmethod
    def _on_new_loop(self) -> None:
        """Resets the state that belonged to the previous event loop."""

    def when_granted(self, amount: Amount, call: Callable[[ValueError | None], None]) -> Waiter[Amount]:
        """Joins the queue without a coroutine.

        Args:
            amount: The amount to take.
            call: Is called once, never from inside this method: with `None` when the amount has been taken, or with an
                error when a change has made that impossible. It must not raise. It may rejoin the queue.

        Raises:
            ValueError: If the amount can never be granted.
            RuntimeError: If there is no running event loop, or other tasks wait in another one.
        """
        self._check(amount)
        waiter = Waiter(self, amount, self._bind_to_running_loop().time(), call=call)
        self._join(waiter)
        return waiter

    async def _wait(self, amount: Amount) -> None:
        """Waits at the end of the queue until the amount is granted. If it is cancelled, it takes nothing."""
        loop = self._bind_to_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        waiter = Waiter(self, amount, loop.time(), future=future)
        self._join(waiter)
        try:
            await future
        except BaseException:
            waiter.cancel()
            if waiter.granted:
                self._release_unused(amount)
            raise

    def _bind_to_running_loop(self) -> asyncio.AbstractEventLoop:
        """Returns the running event loop, to which the queue belongs from now on."""
        loop = asyncio.get_running_loop()
        before = self._loop
        if loop is not before:
            if before is not None and not before.is_closed() and (self._waiters or before.is_running()):
                raise OtherLoopError(
                    f"this {type(self).__name__} is in use in another event loop: make one for each event loop"
                )
            self._waiters.clear()
            self._loop = loop
            self._on_new_loop()
        return loop

    def _now_s(self) -> float:
        return (self._loop or self._bind_to_running_loop()).time()

    def _join(self, waiter: Waiter[Amount]) -> None:
        self._waiters[waiter] = None
        self._schedule_serving()

    def _leave(self, waiter: Waiter[Amount]) -> None:
        if waiter in self._waiters:
            del self._waiters[waiter]
            self._schedule_serving()

    def _first(self) -> Waiter[Amount] | None:
        """Returns the first waiter that still waits, and removes those before it, whose tasks were cancelled."""
        while self._waiters:
            waiter = next(iter(self._waiters))
            if waiter.is_waiting():
                return waiter
            del self._waiters[waiter]
        return None

    def _has_waiters(self) -> bool:
        """Returns whether a waiter is in the queue, and removes waiters of an event loop that was closed."""
        if self._waiters and self._loop is not None and self._loop.is_closed():
            self._waiters.clear()
        return bool(self._waiters)

    def _serve(self) -> None:
        """Grants amounts to one waiter after the other, until there is not enough for the next."""
        # Callbacks may release, acquire or leave; the loop below continues with the queue as it then is.
        if self._serving or self._loop is None or not self._has_waiters():
            return
        self._serving = True
        try:
            for _ in range(len(self._waiters)):
                waiter = self._first()
                if waiter is None or not self._try_take(waiter.amount):
                    break
                del self._waiters[waiter]
                waiter.granted = True
                self._granted += 1
                self._waited_s += self._loop.time() - waiter.joined_s
                waiter.settle(None)
        finally:
            self._serving = False
            self._schedule_serving()

    def _fail_above(self, bound: Amount, message: str) -> None:
        """Removes waiters for more than the bound from the queue, with an error."""
        for waiter in [waiter for waiter in self._waiters if waiter.amount > bound]:
            if waiter in self._waiters:
                del self._waiters[waiter]
                waiter.settle(ValueError(message))
