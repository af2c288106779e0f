"""An event loop whose time passes only when nothing else is left to do: an hour of waiting takes no time at all.

A program on it is deterministic: timers fire exactly when they are due, in their order, and nothing else decides. A
program that waits for something that can't come gets an error at once, instead of hanging.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingLeftToHappenError(Exception):
    """All tasks wait, and no timer is set."""


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop with a clock of its own, which begins at 0 s."""

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__(_Jumping(self))
        self._clock_resolution = 1e-9  # sums of floats may miss the time of a timer by less

    def time(self) -> float:
        """Returns the seconds since this loop was made."""
        return self._now_s

    def pass_time(self, seconds: float) -> None:
        """Moves the clock on, as a slow callback would."""
        self._now_s += seconds


class _Jumping(selectors.DefaultSelector):
    """Never waits: the clock jumps instead."""

    def __init__(self, loop: VirtualClockLoop) -> None:
        super().__init__()
        self._loop = loop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            raise NothingLeftToHappenError("all tasks wait, and no timer is set")
        self._loop.pass_time(timeout)
        return ready


def run_on_virtual_clock(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine as `asyncio.run` does, on a virtual clock; fails if it leaves a task running."""
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        return runner.run(_alone(main))


async def _alone(main: Coroutine[Any, Any, T]) -> T:
    result = await main
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"left running: {left}"
    return result
