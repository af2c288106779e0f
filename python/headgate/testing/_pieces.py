"""The pieces of a streamed response, which are read while the client receives them."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TypeAlias

from headgate._checks import kind_of
from headgate.serving._threads import FunctionThreads

Pieces: TypeAlias = Iterable[bytes] | AsyncIterable[bytes]
"""A body in pieces."""


def is_one_shot(pieces: Pieces) -> bool:
    """Returns whether it can be iterated over only once: it is an iterator itself."""
    return isinstance(pieces, Iterator | AsyncIterator)


@asynccontextmanager
async def opened(
    pieces: Pieces, pause_s: float, threads: FunctionThreads
) -> "AsyncIterator[Callable[[], AsyncIterator[bytes]]]":
    """Yields a function that iterates over the pieces, with a pause between two; leaving the block closes them.

    An async iterable runs in the loop, a list is read there, and any other iterable runs in a thread, because it may
    block.
    """
    if isinstance(pieces, AsyncIterable):
        source = aiter(pieces)
        close = getattr(source, "aclose", None)
        async with contextlib.AsyncExitStack() as stack:
            if close is not None:
                stack.push_async_callback(close)
            yield lambda: _paused(source, pause_s)
    elif isinstance(pieces, list | tuple):
        yield lambda: _paused(_of_list(pieces), pause_s)
    else:
        iterator = _IteratorInThread(iter(pieces))
        try:
            yield lambda: _paused(iterator.pieces(threads), pause_s)
        finally:
            iterator.close()


async def _paused(pieces: AsyncIterator[bytes], pause_s: float) -> AsyncIterator[bytes]:
    is_first = True
    async for piece in pieces:
        if not isinstance(piece, bytes | bytearray | memoryview):
            raise TypeError(f"content must yield bytes, not {kind_of(piece)}")
        if not is_first and pause_s:
            await asyncio.sleep(pause_s)
        is_first = False
        yield bytes(piece)


async def _of_list(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


class _IteratorInThread:
    """An iterator that runs in threads, and is closed while none of them is in it."""

    def __init__(self, iterator: Iterator[bytes]) -> None:
        self._iterator = iterator
        self._running = threading.Lock()
        self._is_closed = False

    async def pieces(self, threads: FunctionThreads) -> AsyncIterator[bytes]:
        """Yields the pieces."""
        while (piece := await threads.run(self._next)) is not None:
            yield piece

    def close(self) -> None:
        """Closes a generator: now, or when the thread that runs it leaves it."""
        self._is_closed = True
        if self._running.acquire(blocking=False):
            try:
                close = getattr(self._iterator, "close", None)
                if close is not None:
                    close()
            finally:
                self._running.release()

    def _next(self) -> bytes | None:
        with self._running:
            piece = None if self._is_closed else next(self._iterator, None)
        if self._is_closed:
            self.close()
        return piece
