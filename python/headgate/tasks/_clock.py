"""What time it is for a flow: how long it may keep the event loop, and how long its calls have had."""

import asyncio
import time
from asyncio import base_events
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

LONGEST_TURN_S: Final = 0.005
"""How long items are pulled from a source before the event loop has its turn again."""


class Standstill:
    """How long the clocks of the calls on one event loop have stood still, in seconds."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


_standstills: WeakKeyDictionary[asyncio.AbstractEventLoop, Standstill] = WeakKeyDictionary()


class CallClock:
    """A clock that stands still while a source is pulled: what a call has had of it was the call's to use.

    Attributes:
        read: Gives the seconds on a clock that does not stand still.
        stood: How long this one has: all of an event loop together, because it is the loop that is kept.
    """

    __slots__ = ("read", "stood")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.read = read_of(loop)
        self.stood = _standstills.setdefault(loop, Standstill())

    def now_s(self) -> float:
        """Seconds on this clock."""
        return self.read() - self.stood.seconds


def read_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """The clock of a loop; `time.monotonic` where that is what it comes to.

    The one of uvloop moves from turn to turn, and would not see how long a turn takes.
    """
    own = loop.time
    is_virtual = isinstance(loop, base_events.BaseEventLoop) and (
        getattr(own, "__func__", None) is not base_events.BaseEventLoop.time
    )
    return own if is_virtual else time.monotonic
