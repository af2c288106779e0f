"""Shows the progress of a call, or passes it to a function, in the thread that iterates over the results."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Annotated, Final, TypeAlias, TypedDict

from headgate._checks import check, function, kind_of
from headgate._summary import Snapshot
from headgate.jobs._display import display_for
from headgate.jobs._option_entry import JobOption
from headgate.jobs._watch import DRAW_EVERY_S

CALL_EVERY_S: Final = 0.1

ProgressTarget: TypeAlias = bool | Callable[[Snapshot], object]
"""The type of the option `progress`."""


def check_progress(value: object) -> None:
    """Checks that the value is a bool or a function."""
    if isinstance(value, bool):
        return
    if not callable(value):
        raise TypeError(f"must be True, False or a function that takes a Snapshot, not {kind_of(value)}")
    function(value)


class ProgressOption(TypedDict, total=False):
    """The option for progress while results are taken."""

    progress: Annotated[
        ProgressTarget,
        JobOption(
            help=(
                "Show progress on standard error while results are taken; or a function, which is called with a"
                " `Snapshot` about ten times a second, in the thread that takes results. What it raises ends the call."
            ),
            default=False,
            check=check_progress,
        ),
    ]


class Progress:
    """Shows progress or passes it to a function, as long as its methods are called."""

    def __init__(self, target: ProgressTarget, snapshot: Callable[[], Snapshot]) -> None:
        """Creates it for a function, for standard error (`True`) or for nothing (`False`).

        Raises:
            TypeError: `target` is neither a bool nor a function.
        """
        check("progress", target, check_progress)
        self._call = None if isinstance(target, bool) else target
        self._display = display_for(show=True) if target is True else None
        self._shown = ExitStack()
        self._snapshot = snapshot
        self._every_s = CALL_EVERY_S if self._call is not None else DRAW_EVERY_S
        self._next_at = 0.0 if target is not False else float("inf")
        self._has_begun = False

    @property
    def due_in_s(self) -> float:
        """The seconds until `update_if_due` has something to do."""
        return max(self._next_at - time.monotonic(), 0.0)

    def update_if_due(self) -> None:
        """Shows progress if it is due. It has to be called often.

        Raises:
            Exception: Whatever the function for progress raises.
        """
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + self._every_s
            self._show(is_end=False)

    async def wait(self, news: asyncio.Event, at_most_s: float = float("inf")) -> bool:
        """Waits until there is news, progress is due, or `at_most_s` has passed. Returns whether there is news."""
        wait_s, has_news = min(at_most_s, self.due_in_s), True
        if wait_s == float("inf"):
            return await news.wait()

        def end() -> None:
            nonlocal has_news
            has_news = news.is_set()
            news.set()

        timer = asyncio.get_running_loop().call_later(wait_s, end)
        try:
            await news.wait()
        finally:
            timer.cancel()
        return has_news

    def end(self) -> None:
        """Shows the final progress, once. Raises as `update_if_due`."""
        if self._next_at != float("inf"):
            self._next_at = float("inf")
            try:
                self._show(is_end=True)
            finally:
                self.close()

    def close(self) -> None:
        """Removes the display. Idempotent."""
        self._next_at = float("inf")
        with contextlib.suppress(OSError):
            self._shown.close()

    def _show(self, *, is_end: bool) -> None:
        snapshot = self._snapshot()
        if self._call is not None:
            self._call(snapshot)
        if self._display is not None:
            # A closed terminal is no reason to end the call.
            with contextlib.suppress(OSError):
                if not self._has_begun:
                    self._has_begun = True
                    self._shown.enter_context(self._display)
                (self._display.end if is_end else self._display.update)(snapshot)
