"""What an asynchronous source gives, pulled by a task of its own as there is room for it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from inspect import isawaitable
from typing import Generic, TypeVar

from headgate._errors import StrayCancellation

T = TypeVar("T")


class Pulled(Generic[T]):
    """Bounded by `most`. The task that pulls closes the source, too: a generator must be finished where it was run.

    Attributes:
        failure: What the source has raised, after what it gave before; a `StrayCancellation` if it was cancelled.
    """

    def __init__(self, source: AsyncIterator[T], most: int, tell: Callable[[], None]) -> None:
        """`tell` is called in the loop when there is something new: also that there is none any more."""
        self._source = source
        self._most = most
        self._tell = tell
        self._pulled: deque[T] = deque()
        self._has_room = asyncio.Event()
        self._has_begun = False
        self._is_closing = False
        self._has_ended = False
        self.failure: BaseException | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Pulls from here on. Again: nothing."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def take(self) -> tuple[list[T], bool]:
        """What has been pulled, and whether nothing comes any more."""
        taken = list(self._pulled)
        self._pulled.clear()
        self._has_room.set()
        return taken, self._has_ended

    async def aclose(self) -> None:
        """Pulls no more, and waits until the source is closed. Again: waits for the same."""
        self.cancel()
        self.begin()
        task = self._task
        # The source itself may do this; and what ran in a loop that has ended does not end any more.
        is_here = task is not None and task.get_loop() is asyncio.get_running_loop()
        if task is not None and is_here and task is not asyncio.current_task():
            # Who waits may be cancelled, and the source is closed nevertheless.
            await asyncio.wait((task,))

    def cancel(self) -> None:
        """The same without waiting for it: in the thread of its loop. Again: nothing."""
        if self._is_closing:
            return
        self._is_closing = True
        # Cancelled before it has begun, it would not close the source; and itself it would cancel while it closes it.
        if self._task is not None and self._has_begun and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _run(self) -> None:
        self._has_begun = True
        try:
            if not self._is_closing:
                await self._pull()
        except GeneratorExit:
            raise  # the loop has ended: nothing can be awaited any more
        except asyncio.CancelledError as error:
            self.failure = StrayCancellation("the source was cancelled, and who takes the results was not")
            self.failure.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - it is raised where results are taken
            self.failure = error
        await self._close_source()
        self._has_ended = True
        self._tell()

    async def _pull(self) -> None:
        async for one in self._source:
            self._pulled.append(one)
            self._tell()
            while len(self._pulled) >= self._most and not self._is_closing:
                self._has_room.clear()
                await self._has_room.wait()
            if self._is_closing:
                return

    async def _close_source(self) -> None:
        close = getattr(self._source, "aclose", None)
        if close is None:
            return
        try:
            closing = close()
            if isawaitable(closing):
                await closing
        except GeneratorExit:
            raise  # as above
        except BaseException as error:  # noqa: BLE001 - as above
            self.failure = self.failure or error
