"""What an asynchronous source gives, pulled by a task of its own as there is room for it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_END: Final = object()


class Pulled(Generic[T]):
    """Bounded by `most`."""

    def __init__(self, source: AsyncIterator[T], most: int, tell: Callable[[], None]) -> None:
        """`tell` is called in the loop when there is something new: also that there is none any more."""
        self._source = source
        self._most = most
        self._tell = tell
        self._pulled: deque[T] = deque()
        self._has_room = asyncio.Event()
        self._has_ended = False
        self._failure: BaseException | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Pulls from here on. Again: nothing."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def take(self) -> tuple[list[T], bool]:
        """What has been pulled, and whether nothing comes any more.

        Raises:
            Exception: Whatever the source has raised, after what it gave before.
        """
        taken = list(self._pulled)
        self._pulled.clear()
        self._has_room.set()
        if not taken and self._failure is not None:
            raise self._failure
        return taken, self._has_ended and self._failure is None

    async def aclose(self) -> None:
        """Pulls no more. Again: nothing."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def cancel(self) -> None:
        """The same without waiting for it: in the thread of its loop."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            async for one in self._source:
                self._pulled.append(one)
                self._tell()
                while len(self._pulled) >= self._most:
                    self._has_room.clear()
                    await self._has_room.wait()
        except Exception as error:  # noqa: BLE001 - it is raised where results are taken
            self._failure = error
        self._has_ended = True
        self._tell()


async def in_threads(source: Iterator[T]) -> AsyncIterator[T]:
    """What an iterator gives that may take its time: each in a thread."""
    while True:
        one = await asyncio.to_thread(next, source, _END)
        if one is _END:
            return
        yield one  # type: ignore[misc] # it is no `_END`
