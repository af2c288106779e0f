"""The parts of its event loop that a flow needs: the cheapest function to create tasks, and a clock."""

import asyncio
import math
import time
from asyncio import base_events, tasks
from collections.abc import Callable, Coroutine
from contextvars import Context
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


_IDLE_PART: Final = 1 / 10
"""How long a loop must be idle before the next pull, as a part of the last pull."""
_CHECKS: Final = 4
"""How often that is checked meanwhile."""
_MIN_CHECK_S: Final = 0.001
"""The resolution of the timers of asyncio and uvloop."""
_IDLE_CPU_S: Final = 0.00006
"""A loop whose thread uses less processor time than this between two checks is idle. A check takes about half of it."""
_IDLE_CHECKS: Final = 4
"""It is also idle if its thread uses less than so many times what the cheapest check took."""


class LoopTime:
    """Calls back when an event loop has had its time: as long as a pull took, or until it was idle for a tenth of that.

    It is idle if its thread uses no processor time. It would not be enough to look whether callbacks are ready: a call
    that has just sent its request waits for the response, which may come in a millisecond.
    """

    __slots__ = (
        *("_checks", "_context", "_idle_checks", "_least_s", "_loop", "_now_s"),
        *("_then", "_timer", "_until_s", "_used_s", "_wait_s"),
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, now_s: Callable[[], float], context: Context) -> None:
        self._loop = loop
        self._now_s = now_s
        self._context = context
        self._least_s = _IDLE_CPU_S  # the least processor time between two checks so far
        self._then: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self, pull_s: float, then: Callable[[], None]) -> None:
        """Calls `then` after this time, or once the loop is idle, unless `cancel` comes first."""
        self.cancel()
        self._then = then
        self._until_s = self._now_s() + pull_s
        self._wait_s = max(pull_s * _IDLE_PART / _CHECKS, _MIN_CHECK_S)
        self._checks = self._idle_checks = math.ceil(pull_s * _IDLE_PART / self._wait_s)
        self._check_later()

    def cancel(self) -> None:
        """Calls nothing back. Idempotent."""
        self._then = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check_later(self) -> None:
        self._used_s = time.thread_time()
        self._timer = self._loop.call_later(self._wait_s, self._check, context=self._context)

    def _check(self) -> None:
        used_s = time.thread_time() - self._used_s
        self._least_s = min(self._least_s, used_s)
        is_idle = used_s < max(_IDLE_CPU_S, _IDLE_CHECKS * self._least_s)
        self._idle_checks = self._idle_checks - 1 if is_idle else self._checks
        then = self._then
        if then is not None and (self._idle_checks <= 0 or self._now_s() >= self._until_s):
            self.cancel()
            then()
        elif then is not None:
            self._check_later()


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
