"""How far a call is, shown or told from the thread that iterates over its results."""

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

TELL_EVERY_S: Final = 0.1

Told: TypeAlias = bool | Callable[[Snapshot], object]
"""What may be given as `progress`."""


def check_progress(value: object) -> None:
    """A switch, or a function."""
    if isinstance(value, bool):
        return
    if not callable(value):
        raise TypeError(f"must be True, False or a function that takes a Snapshot, not {kind_of(value)}")
    function(value)


class ProgressOption(TypedDict, total=False):
    """What is shown while results are taken."""

    progress: Annotated[
        Told,
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
    """Shows or tells how far it is, as long as it is asked to look."""

    def __init__(self, told: Told, snapshot: Callable[[], Snapshot]) -> None:
        """`told`: what is told of progress; `False` is nothing.

        Raises:
            TypeError: It can't be that.
        """
        check("progress", told, check_progress)
        self._call = None if isinstance(told, bool) else told
        self._display = display_for(show=True) if told is True else None
        self._shown = ExitStack()
        self._snapshot = snapshot
        self._every_s = TELL_EVERY_S if self._call is not None else DRAW_EVERY_S
        self._next_at = 0.0 if told is not False else float("inf")
        self._has_begun = False

    @property
    def due_in_s(self) -> float:
        """How soon it is to look."""
        return max(self._next_at - time.monotonic(), 0.0)

    def look(self) -> None:
        """To be called often: tells when it is time.

        Raises:
            Exception: Whatever the function that it was given raises.
        """
        now = time.monotonic()
        if now >= self._next_at:
            self._next_at = now + self._every_s
            self._tell(is_end=False)

    async def wait(self, news: asyncio.Event, at_most_s: float = float("inf")) -> None:
        """Waits in a loop until there is news, it is time to look, or so long."""
        wait_s = min(at_most_s, self.due_in_s)
        if wait_s == float("inf"):
            await news.wait()
            return
        timer = asyncio.get_running_loop().call_later(wait_s, news.set)
        try:
            await news.wait()
        finally:
            timer.cancel()

    def end(self) -> None:
        """Tells where it came to. Again: nothing. Raises as `look`."""
        if self._next_at != float("inf"):
            self._next_at = float("inf")
            try:
                self._tell(is_end=True)
            finally:
                self.leave()

    def leave(self) -> None:
        """Shows nothing any more. Again: nothing."""
        self._next_at = float("inf")
        with contextlib.suppress(OSError):
            self._shown.close()

    def _tell(self, *, is_end: bool) -> None:
        snapshot = self._snapshot()
        if self._call is not None:
            self._call(snapshot)
        if self._display is not None:
            # The display may be gone: no reason to end the call.
            with contextlib.suppress(OSError):
                if not self._has_begun:
                    self._has_begun = True
                    self._shown.enter_context(self._display)
                (self._display.end if is_end else self._display.update)(snapshot)
