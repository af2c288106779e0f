"""The wait queue of a limit or a rate: first come, first served, whatever their weights.

Prior art: the waiters of `asyncio.Semaphore`, whose history is one of lost wake-ups and of newcomers that overtook
(python/cpython issue 90155, python/asyncio issue 270); trio's `ParkingLot`, which hands over in order.

Guarantees:
  - The waiter at the head is served before all behind it, also when those ask for less. A newcomer is never served
    before waiters. (It may run before waiters that were served in the same turn of the event loop: they have what they
    asked for, and go on in the next turn.)
  - The queue takes the amount before the waiter runs: between the two, no other task can take it.
  - A waiter that is cancelled takes nothing. If it was served in the same turn of the event loop, it releases the
  amount.
  - One turn of the event loop serves at most the waiters that were in the queue when it began.

Cost: to join, to leave and to serve are O(1), from any position in the queue; no task and no timer for each waiter.

Not done here: time, and what there is to take. `ConcurrencyLimit` and `Rate` say so in `_take`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Amount = TypeVar("Amount", bound=float)


class OtherLoopError(RuntimeError):
    """A limit or a rate is in use in another event loop than the running one."""


class Waiter(Generic[Amount]):
    """A task or a callback that waits in a wait queue.

    Attributes:
        amount: What is asked for.
        granted: Whether it was taken for this waiter.
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
        self._queue._leave(self)  # noqa: SLF001 - the two are one thing

    def is_wanted(self) -> bool:
        """Returns whether its task still waits: a cancelled one learns of it in the next turn of the event loop."""
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
    """Base of what can be waited for; belongs to one event loop at a time."""

    __slots__ = ("_granted", "_loop", "_serving", "_waited_s", "_waiters")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        # A plain dict finds its first entry in O(entries removed before it).
        self._waiters: OrderedDict[Waiter[Amount], None] = OrderedDict()
        self._serving = False
        self._granted = 0
        self._waited_s = 0.0

    @abstractmethod
    def _take(self, amount: Amount) -> bool:
        """Takes the amount if it is there."""

    @abstractmethod
    def _release_unused(self, amount: Amount) -> None:
        """Returns an amount that was granted to a waiter that will not use it."""

    @abstractmethod
    def _check(self, amount: Amount) -> None:
        """Refuses what can never be granted."""

    @abstractmethod
    def _changed(self) -> None:
        """Sees to it that the queue is served when its head, perhaps another one now, can be."""

    @abstractmethod
    def _moved(self) -> None:
        """Forgets what belonged to the event loop before."""

    def when_granted(self, amount: Amount, call: Callable[[ValueError | None], None]) -> Waiter[Amount]:
        """Joins the queue without a coroutine.

        Args:
            amount: What to take.
            call: Is called once, never from inside this method: with `None` when the amount has been taken for it, with
                the error when a change has made that impossible. It must not raise. It may join again.

        Raises:
            ValueError: If the amount can never be granted.
            RuntimeError: If there is no running event loop, or other tasks wait in another one.
        """
        self._check(amount)
        waiter = Waiter(self, amount, self._here().time(), call=call)
        self._join(waiter)
        return waiter

    async def _wait(self, amount: Amount) -> None:
        """Waits for its turn, from the end of the queue. Cancelling it takes nothing."""
        loop = self._here()
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

    def _here(self) -> asyncio.AbstractEventLoop:
        """The running event loop; from now on the one of this queue."""
        loop = asyncio.get_running_loop()
        before = self._loop
        if loop is not before:
            if before is not None and not before.is_closed() and (self._waiters or before.is_running()):
                raise OtherLoopError(
                    f"this {type(self).__name__} is in use in another event loop: make one for each event loop"
                )
            self._waiters.clear()
            self._loop = loop
            self._moved()
        return loop

    def _now_s(self) -> float:
        return (self._loop or self._here()).time()

    def _join(self, waiter: Waiter[Amount]) -> None:
        self._waiters[waiter] = None
        self._changed()

    def _leave(self, waiter: Waiter[Amount]) -> None:
        if waiter in self._waiters:
            del self._waiters[waiter]
            self._changed()

    def _head(self) -> Waiter[Amount] | None:
        """Returns the first that still waits; those before it, whose tasks were cancelled, leave the queue."""
        while self._waiters:
            waiter = next(iter(self._waiters))
            if waiter.is_wanted():
                return waiter
            del self._waiters[waiter]
        return None

    def _has_waiters(self) -> bool:
        """Returns whether a waiter is in the queue; those of an event loop that was closed leave it."""
        if self._waiters and self._loop is not None and self._loop.is_closed():
            self._waiters.clear()
        return bool(self._waiters)

    def _serve(self) -> None:
        """Grants to one after the other, until there is not enough for the next."""
        # What is called from here may release, acquire or leave; the loop below goes on with the queue as it then is.
        if self._serving or self._loop is None or not self._has_waiters():
            return
        self._serving = True
        try:
            for _ in range(len(self._waiters)):
                waiter = self._head()
                if waiter is None or not self._take(waiter.amount):
                    break
                del self._waiters[waiter]
                waiter.granted = True
                self._granted += 1
                self._waited_s += self._loop.time() - waiter.joined_s
                waiter.settle(None)
        finally:
            self._serving = False
            self._changed()

    def _refuse_above(self, bound: Amount, why: str) -> None:
        """Waiters for more than the bound leave the queue with an error."""
        for waiter in [waiter for waiter in self._waiters if waiter.amount > bound]:
            if waiter in self._waiters:
                del self._waiters[waiter]
                waiter.settle(ValueError(why))
