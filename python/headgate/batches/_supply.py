"""Feeds a call with tables when it needs them, also from asynchronous and slow sources."""

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from inspect import isawaitable, isgenerator
from typing import Any, Final, Generic, NoReturn, ParamSpec, Protocol, TypeVar

from headgate._errors import StrayCancellation
from headgate._native import BatchFlow

MEMORY_CHECK_S: Final = 0.1
"""After a wait of this length, a call returns memory of uncollected results for which the engine may wait."""

_ARROW: Final = ("__arrow_c_array__", "__arrow_c_stream__")


class Supply(Protocol):
    """Feeds a call.

    Attributes:
        decides_columns: Whether the first input determines the columns of the results.
    """

    decides_columns: bool

    @property
    def failure(self) -> BaseException | None:
        """The error that reading the input raised. The caller gets it after the results of the earlier input."""

    def feed(self, flow: BatchFlow) -> None:
        """Feeds the next input, or ends the input. Raises the errors of the caller's iterable."""

    def close(self) -> None:
        """Stops reading the input."""


class TableSupply:
    """Feeds one table after the other."""

    decides_columns = True

    def __init__(self, batches: object) -> None:
        """Creates the supply for `batches`, which is a table or an iterable of tables.

        Raises:
            TypeError: It is neither.
        """
        self._source = tables_of(batches)
        self.failure: Exception | None = None

    def feed(self, flow: BatchFlow) -> None:
        """Feeds the next table."""
        try:
            batch = next(self._source)
        except StopIteration:
            flow.finish_input()
        except Exception as error:  # noqa: BLE001 - raised after the results of the earlier tables
            self.failure = error
            flow.finish_input()
        else:
            flow.set_table(batch)

    def close(self) -> None:
        """Stops reading tables."""
        source, self._source, self.failure = self._source, iter(()), None
        close_source(source)


def close_source(source: object) -> None:
    """Closes a generator, so that its `finally` blocks run. Other iterators stay open for their owner.

    A generator that is running stays open, too, whether it called this itself or another thread reads it.
    """
    if isgenerator(source) and not source.gi_running:
        source.close()


def tables_of(batches: object) -> Iterator[object]:
    """Returns an iterator over one table, or over the tables of an iterable.

    Raises:
        TypeError: `batches` is neither.
    """
    if any(hasattr(batches, name) for name in _ARROW):
        return iter((batches,))
    if isinstance(batches, Iterable) and not isinstance(batches, str | bytes):
        return iter(batches)
    if isinstance(batches, AsyncIterable):
        return _refuse("an iterable of these, and one for `async for` is for amap_batches", batches)
    return _refuse("an iterable of these", batches)


def async_tables_of(batches: object) -> AsyncIterator[object] | Iterator[object]:
    """Returns an iterator like `tables_of`, or an async iterator over the tables of an async iterable."""
    if isinstance(batches, AsyncIterable) and not any(hasattr(batches, name) for name in _ARROW):
        return aiter(batches)
    return tables_of(batches)


def _refuse(may_be: str, batches: object) -> NoReturn:
    raise TypeError(f"batches must be a table, a stream of record batches, or {may_be}, not {type(batches).__name__}")


T = TypeVar("T")


class Pulled(Generic[T]):
    """Pulls up to `max_pulled` items ahead in a task, which also closes the source: a generator must end where it ran.

    Attributes:
        failure: The error that the source raised after its items; a `StrayCancellation` if it was cancelled.
    """

    def __init__(self, source: AsyncIterator[T], max_pulled: int, notify: Callable[[], None]) -> None:
        """`notify` is called in the loop when there is a new item, and at the end."""
        self._source = source
        self._max_pulled = max_pulled
        self._notify = notify
        self._pulled: deque[T] = deque()
        self._has_space = asyncio.Event()
        self._has_begun = False
        self._is_closing = False
        self._has_ended = False
        self.failure: BaseException | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Starts pulling. Idempotent."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def take(self) -> tuple[list[T], bool]:
        """Removes and returns the pulled items, and returns whether they were the last."""
        taken = list(self._pulled)
        self._pulled.clear()
        self._has_space.set()
        return taken, self._has_ended

    async def aclose(self) -> None:
        """Stops pulling, and waits until the source is closed. A second call waits, too."""
        self.cancel()
        self.begin()
        task = self._task
        # Don't wait if the source itself calls this, or for a task of a loop that has ended, which never ends.
        is_here = task is not None and task.get_loop() is asyncio.get_running_loop()
        if task is not None and is_here and task is not asyncio.current_task():
            # If this wait is cancelled, the source is closed nevertheless.
            await asyncio.wait((task,))

    def cancel(self) -> None:
        """Stops pulling without waiting, in the thread of the loop. Idempotent."""
        if self._is_closing:
            return
        self._is_closing = True
        # A task that is cancelled before it begins would not close the source, and one that cancels itself would
        # interrupt the closing.
        if self._task is not None and self._has_begun and self._task is not asyncio.current_task():
            self._task.cancel()

    async def _run(self) -> None:
        self._has_begun = True
        try:
            if not self._is_closing:
                await self._pull()
        except GeneratorExit:
            raise  # the loop has ended, and nothing can be awaited
        except asyncio.CancelledError as error:
            self.failure = StrayCancellation("the source was cancelled, and the task that takes results was not")
            self.failure.__cause__ = error
        except BaseException as error:  # noqa: BLE001 - raised in the task that takes results
            self.failure = error
        await self._close_source()
        self._has_ended = True
        self._notify()

    async def _pull(self) -> None:
        async for item in self._source:
            self._pulled.append(item)
            self._notify()
            while len(self._pulled) >= self._max_pulled and not self._is_closing:
                self._has_space.clear()
                await self._has_space.wait()
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


P = ParamSpec("P")

_MAX_THREADS: Final = 32
_END: Final = object()


def _create_executor() -> None:
    global _executor  # noqa: PLW0603 - a fork has none of the threads
    _executor = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix="headgate")


_executor: ThreadPoolExecutor
_create_executor()
os.register_at_fork(after_in_child=_create_executor)


def run_in_own_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> "asyncio.Future[T]":
    """Starts a function in headgate's own executor: the loop's threads may all wait for the caller's iterator."""
    called = partial(copy_context().run, function, *args, **kwargs)
    return asyncio.get_running_loop().run_in_executor(_executor, called)


def call_soon_in(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> bool:  # noqa: ANN401 - its own
    """Schedules a call in the thread of a loop. Returns false if the loop is closed."""
    try:
        loop.call_soon_threadsafe(function, *args)
    except RuntimeError:
        return False
    return True


class ThreadedIterator(AsyncIterator[T]):
    """Reads an iterator that may be slow, each item in a thread of the loop."""

    def __init__(self, source: Iterator[T]) -> None:
        self._source = source
        self._read_lock = threading.Lock()
        self._is_closing = False

    async def __anext__(self) -> T:
        item = await asyncio.to_thread(self._read)
        if item is _END:
            raise StopAsyncIteration
        return item  # type: ignore[return-value] # it is not `_END`

    async def aclose(self) -> None:
        """Closes a generator. If a thread reads it now, that thread closes it later."""
        await run_in_own_thread(self._close_if_idle)

    def _read(self) -> object:
        with self._read_lock:
            item = next(self._source, _END)
        if self._is_closing:
            self._close_if_idle()
        return item

    def _close_if_idle(self) -> None:
        self._is_closing = True
        # After its read, the reading thread checks `_is_closing`.
        if self._read_lock.acquire(blocking=False):
            try:
                close_source(self._source)
            finally:
                self._read_lock.release()
