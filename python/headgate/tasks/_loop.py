"""The parts of its event loop that a flow needs: the cheapest function to create tasks, and a clock."""

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
    """Creates tasks. It calls `tasks.Task` instead of asyncio's own `create_task`, which saves a twentieth of a task.

    Attributes:
        is_making: Whether a task is being created now. An eager task (Python 3.12) runs meanwhile, and no variable
            refers to it yet.
    """

    __slots__ = ("_loop", "is_making")

    def __init__(self) -> None:
        self.is_making = False

    def bind(self, loop: asyncio.AbstractEventLoop) -> Create:
        """Returns the function that creates tasks on this loop."""
        if _is_unchanged(loop) and loop.get_task_factory() is None and not loop.get_debug():
            return partial(tasks.Task, loop=loop)
        self._loop = loop
        return self._make

    def _make(self, coroutine: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        self.is_making = True
        try:
            return self._loop.create_task(coroutine)
        except BaseException:
            coroutine.close()  # the user's task factory failed and did not close it
            raise
        finally:
            self.is_making = False


def _is_unchanged(loop: asyncio.AbstractEventLoop) -> bool:
    """Returns whether the loop's `create_task` is asyncio's own function.

    The function's globals decide: a replacement, on the loop or on any of its classes, may copy its name and module,
    or look like a method.
    """
    method = loop.create_task
    function = method.__func__ if type(method) is MethodType else None
    return type(function) is FunctionType and function.__globals__ is vars(base_events)


MAX_PULL_S: Final = 0.005
"""How long items are pulled from a source before the event loop runs other callbacks."""


class PausedTime:
    """The seconds for which the call clocks of one event loop have been paused."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


_paused_times: WeakKeyDictionary[asyncio.AbstractEventLoop, PausedTime] = WeakKeyDictionary()


class CallClock:
    """A clock that is paused while a source is pulled, so that it measures only time that the calls could use.

    Attributes:
        read: Returns the seconds on a clock that is never paused.
        paused: How long this clock has been paused. The clocks of one event loop share it, because a pull blocks the
            whole loop.
    """

    __slots__ = ("paused", "read")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.read = _reader_of(loop)
        self.paused = _paused_times.setdefault(loop, PausedTime())

    def now_s(self) -> float:
        """Returns the seconds on this clock."""
        return self.read() - self.paused.seconds


def _reader_of(loop: asyncio.AbstractEventLoop) -> Callable[[], float]:
    """Returns the `time` method of a loop, or `time.monotonic` if the loop does not replace it.

    uvloop's clock advances once per iteration of the loop, and would not show how long an iteration takes.
    """
    own = loop.time
    is_virtual = isinstance(loop, base_events.BaseEventLoop) and (
        getattr(own, "__func__", None) is not base_events.BaseEventLoop.time
    )
    return own if is_virtual else time.monotonic
