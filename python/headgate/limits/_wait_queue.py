"""The line of those who wait for a limit or a rate: first come, first served, whatever their weights.

Prior art: the waiters of `asyncio.Semaphore`, whose history is one of lost wake-ups and of newcomers that overtook
(python/cpython issue 90155, python/asyncio issue 270); trio's `ParkingLot`, which hands over in order.

Guarantees:
  - Who is at the head is served before anybody behind, also when those behind ask for less. A newcomer is never
    served before those who wait. (It may run before those who were served in the same turn of the event loop: they have
    what they asked for, and go on in the next turn.)
  - What was asked for is taken by the one who serves, before the waiter runs: between the two, nobody can take it away.
  - A waiter that is cancelled takes nothing. Was it served in the same turn of the event loop, it gives back.
  - One turn of the event loop serves at most those who stood in the line when it began.

Cost: to join, to leave and to serve are O(1), from any place in the line; no task and no timer for each waiter.

Not done here: time, and what there is to take. `ConcurrencyLimit` and `Rate` say so in `_take`.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Amount = TypeVar("Amount", bound=float)


class OtherLoopError(RuntimeError):
    """A limit or a rate is in use in another event loop than the one that asks."""


class Turn(Generic[Amount]):
    """A place in the line.

    Attributes:
        amount: What is asked for.
        granted: Whether it was taken for this turn.
    """

    __slots__ = ("_call", "_future", "_line", "amount", "granted", "joined_s")

    def __init__(
        self,
        line: "Line[Amount]",
        amount: Amount,
        joined_s: float,
        *,
        call: Callable[[ValueError | None], None] | None = None,
        future: "asyncio.Future[None] | None" = None,
    ) -> None:
        self._line = line
        self._call = call
        self._future = future
        self.amount = amount
        self.joined_s = joined_s
        self.granted = False

    def cancel(self) -> None:
        """Leaves the line; does nothing if it was granted or refused before."""
        self._line._leave(self)  # noqa: SLF001 - the two are one thing

    def is_wanted(self) -> bool:
        """Whether somebody still waits: a cancelled task learns of it only in the next turn of the event loop."""
        return self._future is None or not self._future.done()

    def settle(self, error: ValueError | None) -> None:
        """Tells the one who waits."""
        if self._call is not None:
            self._call(error)
        elif self._future is not None and not self._future.done():
            if error is None:
                self._future.set_result(None)
            else:
                self._future.set_exception(error)


class Line(ABC, Generic[Amount]):
    """Base of what can be waited for; belongs to one event loop at a time."""

    __slots__ = ("_granted", "_loop", "_serving", "_turns", "_waited_s")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        # A plain dict finds its first entry in O(entries removed before it).
        self._turns: OrderedDict[Turn[Amount], None] = OrderedDict()
        self._serving = False
        self._granted = 0
        self._waited_s = 0.0

    @abstractmethod
    def _take(self, amount: Amount) -> bool:
        """Takes the amount if it is there."""

    @abstractmethod
    def _give_back(self, amount: Amount) -> None:
        """Takes back what was granted to a waiter that will not use it."""

    @abstractmethod
    def _check(self, amount: Amount) -> None:
        """Refuses what can never be granted."""

    @abstractmethod
    def _changed(self) -> None:
        """Sees to it that the line is served when its head, perhaps another one now, can be."""

    @abstractmethod
    def _moved(self) -> None:
        """Forgets what belonged to the event loop before."""

    def when_granted(self, amount: Amount, call: Callable[[ValueError | None], None]) -> Turn[Amount]:
        """Joins the line without a coroutine.

        Args:
            amount: What to take.
            call: Is called once, never from inside this method: with `None` when the amount has been taken for it, with
                the error when a change has made that impossible. It must not raise. It may ask again.

        Raises:
            ValueError: If the amount can never be granted.
            RuntimeError: If there is no running event loop, or others wait in another one.
        """
        self._check(amount)
        turn = Turn(self, amount, self._here().time(), call=call)
        self._join(turn)
        return turn

    async def _wait(self, amount: Amount) -> None:
        """Waits for its turn, from the end of the line. Cancelling it takes nothing."""
        loop = self._here()
        future: asyncio.Future[None] = loop.create_future()
        turn = Turn(self, amount, loop.time(), future=future)
        self._join(turn)
        try:
            await future
        except BaseException:
            turn.cancel()
            if turn.granted:
                self._give_back(amount)
            raise

    def _here(self) -> asyncio.AbstractEventLoop:
        """The running event loop; from now on the one of this line."""
        loop = asyncio.get_running_loop()
        before = self._loop
        if loop is not before:
            if before is not None and not before.is_closed() and (self._turns or before.is_running()):
                raise OtherLoopError(
                    f"this {type(self).__name__} is in use in another event loop: make one for each event loop"
                )
            self._turns.clear()
            self._loop = loop
            self._moved()
        return loop

    def _now_s(self) -> float:
        return (self._loop or self._here()).time()

    def _join(self, turn: Turn[Amount]) -> None:
        self._turns[turn] = None
        self._changed()

    def _leave(self, turn: Turn[Amount]) -> None:
        if turn in self._turns:
            del self._turns[turn]
            self._changed()

    def _head(self) -> Turn[Amount] | None:
        """The first who still waits; those before it, whose tasks were cancelled, leave the line."""
        while self._turns:
            turn = next(iter(self._turns))
            if turn.is_wanted():
                return turn
            del self._turns[turn]
        return None

    def _others_wait(self) -> bool:
        """Whether somebody is in the line; those whose event loop was closed are not."""
        if self._turns and self._loop is not None and self._loop.is_closed():
            self._turns.clear()
        return bool(self._turns)

    def _serve(self) -> None:
        """Grants to one after the other, until there is not enough for the next."""
        # What is called from here may give back, ask again or leave; the loop below goes on with the line as it then
        # is.
        if self._serving or self._loop is None or not self._others_wait():
            return
        self._serving = True
        try:
            for _ in range(len(self._turns)):
                turn = self._head()
                if turn is None or not self._take(turn.amount):
                    break
                del self._turns[turn]
                turn.granted = True
                self._granted += 1
                self._waited_s += self._loop.time() - turn.joined_s
                turn.settle(None)
        finally:
            self._serving = False
            self._changed()

    def _refuse_above(self, bound: Amount, why: str) -> None:
        """Those who ask for more than the bound leave the line with an error."""
        for turn in [turn for turn in self._turns if turn.amount > bound]:
            if turn in self._turns:
                del self._turns[turn]
                turn.settle(ValueError(why))
