"""What a flow needs of its event loop: tasks by the shortest way there is, and what time it is."""

import asyncio
import time
from asyncio import base_events, tasks
from collections.abc import Callable, Coroutine
from functools import partial
from types import FunctionType, MethodType
from typing import Any, Final
from weakref import WeakKeyDictionary

Create = Callable[[Coroutine[Any, Any, Any]], asyncio.Future[Any]]


class TaskMaker:
    """Calls `loop.create_task`; where that is asyncio's own, what it comes to, which saves a twentieth of a task.

    Attributes:
        is_making: Whether a task is being made now. An eager one (Python 3.12) runs meanwhile, and no variable refers
            to it yet.
    """

    __slots__ = ("_loop", "is_making")

    def __init__(self) -> None:
        self.is_making = False

    def on(self, loop: asyncio.AbstractEventLoop) -> Create:
        """The function that makes tasks on this loop."""
        if _is_usual(loop) and loop.get_task_factory() is None and not loop.get_debug():
            return partial(tasks.Task, loop=loop)
        self._loop = loop
        return self._make

    def _make(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        self.is_making = True
        try:
            return self._loop.create_task(coroutine)
        except BaseException:
            coroutine.close()  # the user's task factory has failed, and closes nothing
            raise
        finally:
            self.is_making = False


def _is_usual(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether its `create_task` is asyncio's own function.

    Judged by where it was written: a replacement, on the loop or on any of its classes, may carry its
    name and module, or pass itself off as a method.
    """
    method = loop.create_task
    function = method.__func__ if type(method) is MethodType else None
    return type(function) is FunctionType and function.__globals__ is vars(base_events)


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
