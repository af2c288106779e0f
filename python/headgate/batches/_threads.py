"""What may take its time is done in threads while a loop goes on: ours for what is quick, as a rule."""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from headgate.batches._supply import close_source

T = TypeVar("T")
P = ParamSpec("P")

_MOST: Final = 32
"""Of our own. They are started as they are needed."""
_END: Final = object()


def _threads_of_ours() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_MOST, thread_name_prefix="headgate")


_ours = _threads_of_ours()


def _start_over() -> None:
    global _ours  # noqa: PLW0603 - a fork has none of the threads
    _ours = _threads_of_ours()


os.register_at_fork(after_in_child=_start_over)


def begin_in_ours(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
    """Calls it in a thread of ours: the loop's own may all wait for what the caller iterates over."""
    called = partial(copy_context().run, function, *args, **kwargs)
    return asyncio.get_running_loop().run_in_executor(_ours, called)


def soon_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> bool:  # noqa: ANN401 - its own
    """Calls it in the thread of a loop. Whether the loop is still there."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:  # it is closed
        return False
    return True


class InThreads(AsyncIterator[T]):
    """What an iterator gives that may take its time: each in a thread of the loop."""

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._is_read = threading.Lock()
        self._is_left = False

    async def __anext__(self) -> T:
        one = await asyncio.to_thread(self._read)
        if one is _END:
            raise StopAsyncIteration
        return one  # type: ignore[return-value] # it is no `_END`

    async def aclose(self) -> None:
        """Closes a generator. One that is read now is closed after that, and nobody waits for it."""
        await begin_in_ours(self._leave)

    def _read(self) -> object:
        with self._is_read:
            one = next(self._source, _END)
        if self._is_left:
            self._leave()
        return one

    def _leave(self) -> None:
        self._is_left = True
        # Who reads looks whether it was left, when it has read.
        if self._is_read.acquire(blocking=False):
            try:
                close_source(self._source)
            finally:
                self._is_read.release()
