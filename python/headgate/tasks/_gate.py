"""What an item passes before it starts: a slot of a shared limit, then the rate.

Only one item stands here, so that a map has one place in the queue of a shared limit or rate; those behind it wait.
"""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.tasks._entry import Entry

if TYPE_CHECKING:
    from headgate.limits._wait_queue import Waiter


class Gate:
    """Lets one item after the other pass.

    Attributes:
        entry: The item that stands here.
    """

    __slots__ = ("_amount", "_cost", "_rate", "_shared", "_waiter", "entry")

    def __init__(self, shared: ConcurrencyLimit | None, rate: Rate | None, cost: Callable[[Any], float] | None) -> None:
        self.entry: Entry | None = None
        self._shared = shared
        self._rate = rate
        self._cost = cost
        self._amount = 1.0  # that it takes of the rate
        self._waiter: Waiter[Any] | None = None  # its place in a queue

    def lets_pass(self, entry: Entry) -> bool:
        """Takes a slot and a token for the item that stands here, if they are to be had.

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
                return False  # `cost` has stopped the map, and this item was given back; or it has to wait
            entry.has_token = True
        return True

    def wait(self, slot_granted: Callable[[], None], token_granted: Callable[[], None]) -> None:
        """Takes a place in the queue of what was not to be had; when it is granted, its function is called."""
        if self.entry is None or self._waiter is not None:
            return
        if self._shared is not None and not self.entry.has_slot:
            self._waiter = self._shared.when_granted(1, partial(self._slot_granted, slot_granted))
        elif self._rate is not None:
            self._waiter = self._rate.when_granted(self._amount, partial(self._token_granted, token_granted))

    def give_back(self, entry: Entry) -> None:
        """Gives its slot back."""
        entry.has_slot = False
        if self._shared is not None:
            self._shared.release()

    def leave(self) -> None:
        """Takes away the item that stands here, and its place in a queue."""
        if self._waiter is not None:
            self._waiter.cancel()
            self._waiter = None
        self.entry = None

    def _slot_granted(self, ask_again: Callable[[], None], _error: ValueError | None) -> None:
        self._waiter = None
        if self.entry is not None:
            self.entry.has_slot = True
            ask_again()

    def _token_granted(self, ask_again: Callable[[], None], error: ValueError | None) -> None:
        self._waiter = None
        if self.entry is not None:
            # An error: the rate was changed, and can never allow this cost. Asked again, it says so again.
            self.entry.has_token = error is None
            ask_again()
