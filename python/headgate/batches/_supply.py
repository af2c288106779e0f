"""What goes into a call: tables, as they are asked for, also of asynchronous sources and of slow ones."""

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

LOOK_S: Final = 0.1
"""After so long a wait, other calls release memory that the engine may wait for."""

_ARROW: Final = ("__arrow_c_array__", "__arrow_c_stream__")


class Supply(Protocol):
    """What goes into a call.

    Attributes:
        decides_columns: Whether what comes first says which columns there are.
    """

    decides_columns: bool

    @property
    def failure(self) -> BaseException | None:
        """What taking it from the caller has raised. It is raised again when what came before is done."""

    def give(self, flow: BatchFlow) -> None:
        """Gives it the next, or says that there is none any more. Raises whatever the caller's own does."""

    def close(self) -> None:
        """Nothing is wanted any more."""


class Tables:
    """Tables, one after the other."""

    decides_columns = True

    def __init__(self, batches: object) -> None:
        """`batches`: one, or an iterable of them.

        Raises:
            TypeError: It is neither.
        """
        self._source = tables_of(batches)
        self.failure: Exception | None = None

    def give(self, flow: BatchFlow) -> None:
        """Gives the next table."""
        try:
            batch = next(self._source)
        except StopIteration:
            flow.end()
        except Exception as error:  # noqa: BLE001 - it is raised when what came before is done
            self.failure = error
            flow.end()
        else:
            flow.take_from(batch)

    def close(self) -> None:
        """Takes no more of them."""
        source, self._source, self.failure = self._source, iter(()), None
        close_source(source)


def close_source(source: object) -> None:
    """Closes a generator: its `finally` runs. What else there is stays as it is: its owner may go on with it.

    So does a generator that runs in this moment, whether it calls this itself or another thread reads it.
    """
    if isgenerator(source) and not source.gi_running:
        source.close()


def tables_of(batches: object) -> Iterator[object]:
    """One table, or all of an iterable.

    Raises:
        TypeError: It is neither.
    """
    if any(hasattr(batches, name) for name in _ARROW):
        return iter((batches,))
    if isinstance(batches, Iterable) and not isinstance(batches, str | bytes):
        return iter(batches)
    if isinstance(batches, AsyncIterable):
        return _refuse("an iterable of these, and one for `async for` is for amap_batches", batches)
    return _refuse("an iterable of these", batches)


def async_tables_of(batches: object) -> AsyncIterator[object] | Iterator[object]:
    """The same; the iterable may be asynchronous."""
    if isinstance(batches, AsyncIterable) and not any(hasattr(batches, name) for name in _ARROW):
        return aiter(batches)
    return tables_of(batches)


def _refuse(may_be: str, batches: object) -> NoReturn:
    raise TypeError(f"batches must be a table, a stream of record batches, or {may_be}, not {type(batches).__name__}")


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
            # This wait may be cancelled, and the source is closed nevertheless.
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
            self.failure = StrayCancellation("the source was cancelled, and the task that takes results was not")
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
        """Closes a generator. One that is read now is closed after that, without a wait for it."""
        await begin_in_ours(self._leave)

    def _read(self) -> object:
        with self._is_read:
            one = next(self._source, _END)
        if self._is_left:
            self._leave()
        return one

    def _leave(self) -> None:
        self._is_left = True
        # The reading thread checks whether it was left, when it has read.
        if self._is_read.acquire(blocking=False):
            try:
                close_source(self._source)
            finally:
                self._is_read.release()
