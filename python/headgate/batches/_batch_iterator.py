"""Iterators over batches of results, for threads and for event loops."""

import asyncio
import time
import weakref
from abc import abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Final, Protocol, Self, TypeVar

from headgate._errors import ClosedEarly
from headgate._native import BatchFlow, BatchTable, RowBatch, RowSchema
from headgate._summary import Snapshot
from headgate.batches._shared_iterator import SharedIterator
from headgate.batches._supply import (
    MEMORY_CHECK_S,
    Pulled,
    Supply,
    ThreadedIterator,
    async_tables_of,
    call_soon_in,
    run_in_own_thread,
)
from headgate.jobs._notebook import await_interruptibly, ends_iteration
from headgate.jobs._progress import Progress, ProgressTarget

T = TypeVar("T")

_SLICE_S: Final = 0.1
"""How long one wait takes, after which Python handles signals."""


def _is_fine(has_news: bool) -> None:  # noqa: FBT001 - as `check`
    """Raises nothing."""


class BatchIterator(SharedIterator[RowBatch]):
    """Batches of results, as `headgate.map_batches` returns them.

    Each batch has `num_rows` and `__arrow_c_array__`: `pyarrow.record_batch(batch)` and `polars.DataFrame(batch)`
    accept it. All of them together are a stream of record batches (`__arrow_c_stream__`), which can be read once:
    `pyarrow.RecordBatchReader.from_stream(batches)` and `polars.DataFrame(batches)` accept that.

    It can be used as a context manager, which closes it. Any threads may iterate: each batch goes to one of them. An
    error is raised in one thread, and ends the iteration in the others.

    >>> table = pyarrow.table({"id": range(100)})
    >>> with headgate.map_batches(table, url="http://127.0.0.1:8080/{id}") as batches:
    ...     print(next(batches).num_rows > 0)
    True
    """

    __module__ = "headgate"

    def __init__(
        self, flow: BatchFlow, supply: Supply, progress: ProgressTarget, check: Callable[[bool], None] = _is_fine
    ) -> None:
        """`check` is called after each part of a wait with whether it has brought news, and may raise an error."""
        self._supply = supply
        self._check = check
        self._flow = flow
        self._knows_columns = not supply.decides_columns
        # Not the method of this object, so that dropping it drops everything.
        self._progress = Progress(progress, partial(statistics_of, flow))
        super().__init__()

    def __next__(self) -> RowBatch:
        """Waits for the next batch and returns it.

        Raises:
            InputError: A batch of the input lacks a column that is needed, or has other columns than the first one.
            TypeError: The input yields something that is not a batch.
        """
        return super().__next__()

    @property
    def schema(self) -> RowSchema:
        """The columns of all batches (`__arrow_c_schema__`). Reading it reads the first batch of the input.

        >>> with headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     print(pyarrow.schema(batches.schema).names[-1])
        id

        Raises:
            InputError: As `next`.
        """
        while not (self._knows_columns or self._is_closed):
            self._drive(self._feed)
        return self._flow.schema

    def statistics(self) -> Snapshot:
        """Returns the progress of this call and of all calls that share its limits.

        >>> with headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     batch = next(batches)
        ...     print(batches.statistics().succeeded > 0)
        True
        """
        return statistics_of(self._flow)

    def table(self) -> BatchTable:
        """Returns all remaining batches as one table. Raises as `next`.

        >>> with headgate.map_batches(pyarrow.table({"id": [1, 2]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     print(pyarrow.table(batches.table()).num_rows)
        2
        """
        return self._flow.table(list(self))

    def close(self) -> None:
        """Cancels what is in flight, and ends the iteration. Connections stay open.

        >>> batches = headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}")
        >>> batches.close()
        >>> list(batches)
        []
        """
        super().close()

    def __arrow_c_schema__(self) -> object:
        """Returns the Arrow schema. See `schema`."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Returns a stream of the remaining batches; it ignores the requested schema."""
        del requested_schema
        self.__arrow_c_schema__()
        return self._flow.stream(self)

    def _advance(self) -> RowBatch | None:
        batch, has_ended, wants_more = self._flow.step(_SLICE_S)
        if has_ended:
            self._progress.end()
            if self._supply.failure is not None:
                raise self._supply.failure
            raise StopIteration
        self._progress.update_if_due()
        if wants_more:
            self._feed()
        self._check(batch is not None or wants_more or self._flow.ready_in_s() is not None)
        return batch

    def _cancel(self) -> None:
        self._flow.close()

    def _release(self) -> None:
        self._progress.close()
        # This comes last, because a generator of the caller may raise when it is closed.
        self._supply.close()

    def _feed(self) -> None:
        self._supply.feed(self._flow)
        self._knows_columns = True


def statistics_of(flow: BatchFlow) -> Snapshot:
    """Returns the progress of a call and of all calls that share its limits."""
    return Snapshot.from_json(flow.snapshot())


class AsyncSupply(Protocol):
    """Feeds a call from an event loop, and does slow work in threads."""

    async def feed(self, flow: BatchFlow) -> bool:
        """Feeds the input that is available, or ends the input. Returns whether it did one of these."""
        ...

    async def step(self, flow: BatchFlow) -> tuple[RowBatch | None, bool, bool]:
        """Calls `flow.step` without waiting for responses. If it is cancelled, the next call continues the step."""
        ...

    async def aclose(self, flow: BatchFlow) -> None:
        """Ends the call and waits for its end. It can be called more than once, also after a cancelled call."""

    @property
    def failure(self) -> BaseException | None:
        """The error that reading the input raised. The caller gets it after the results of the earlier input."""
        ...

    def cancel(self, flow: BatchFlow) -> None:
        """Ends the call without waiting, in the thread of its loop."""


class AsyncTableSupply:
    """Feeds one table after the other. Tables are read in threads, because that may take long."""

    def __init__(self, batches: object, notify: Callable[[], None]) -> None:
        """Creates the supply as in `TableSupply`, or for an async iterable; calls `notify` for each table."""
        source = async_tables_of(batches)
        self._pulled = Pulled(ThreadedIterator(source) if isinstance(source, Iterator) else source, 1, notify)
        self._given: list[object] = []
        self._stepping: asyncio.Future[tuple[RowBatch | None, bool, bool]] | None = None

    async def feed(self, flow: BatchFlow) -> bool:
        """Queues the next table, if there is one, for the next step. Returns whether it did, or ended the input."""
        self._pulled.begin()
        tables, has_ended = self._pulled.take()
        self._given += tables
        if not tables and has_ended:
            flow.finish_input()
        return bool(tables) or has_ended

    @property
    def failure(self) -> BaseException | None:
        """The error that reading the tables raised."""
        return self._pulled.failure

    async def step(self, flow: BatchFlow) -> tuple[RowBatch | None, bool, bool]:
        """Calls `flow.step` in a thread, which reads rows of the queued tables."""
        while True:
            if self._stepping is None:
                given, self._given = self._given, []
                self._stepping = run_in_own_thread(_step, flow, given)
                self._stepping.add_done_callback(_retrieve_error)
            stepping = self._stepping
            # If this wait is cancelled, the next call continues it.
            await asyncio.wait((stepping,))
            if self._stepping is stepping:
                self._stepping = None
                return stepping.result()

    async def aclose(self, flow: BatchFlow) -> None:
        """Ends the call after the read in progress, and waits."""
        self._pulled.cancel()
        await run_in_own_thread(flow.close)
        await self._pulled.aclose()

    def cancel(self, flow: BatchFlow) -> None:
        """Ends the call in a thread, because that waits for the read in progress."""
        self._pulled.cancel()
        run_in_own_thread(flow.close)


def _step(flow: BatchFlow, tables: list[object]) -> tuple[RowBatch | None, bool, bool]:
    for table in tables:
        flow.set_table(table)
    return flow.step(0.0)


def _retrieve_error(stepped: "asyncio.Future[tuple[RowBatch | None, bool, bool]]") -> None:
    """Retrieves the error: otherwise asyncio logs that it was never retrieved."""
    if not stepped.cancelled():
        stepped.exception()


class LoopIterator(AsyncIterator[T]):
    """An async iterator and context manager whose event loop watches a descriptor of the engine."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._was_cancelled = False
        """It was closed because a wait for it was cancelled."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """Waits for the next result and returns it. Raises as `next` of the iterator for threads.

        Cancelling this, as a timeout does, loses nothing: the next call continues. In a notebook, which interrupts a
        cell by a cancellation, it ends the iteration, and the next call raises `ClosedEarly`.
        """
        try:
            result = await self._next()
        except BaseException as error:
            if ends_iteration(error) and self._loop in (None, asyncio.get_running_loop()):
                self._was_cancelled = isinstance(error, asyncio.CancelledError)
                await self.aclose()
            raise
        if result is None:
            await self.aclose()
            raise StopAsyncIteration
        return result

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @abstractmethod
    async def aclose(self) -> None:
        """Ends the iteration."""

    @abstractmethod
    async def _next(self) -> T | None:
        """Waits for the next result, and returns it, or `None` at the end."""

    @abstractmethod
    def _on_readable(self) -> None:
        """Takes what has arrived, and sets `_news`."""

    def _watch(self, descriptor: int) -> None:
        """Makes the loop watch the descriptor, through a weak reference to this iterator."""
        self._loop = asyncio.get_running_loop()
        here = weakref.ref(self)

        def on_readable() -> None:
            iterator = here()
            if iterator is not None:
                iterator._on_readable()  # noqa: SLF001 - a method of this class

        self._loop.add_reader(descriptor, on_readable)

    def _check_loop(self) -> None:
        """Raises an error in a task of another loop than that of the first task."""
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("this belongs to another event loop, in which its results must be taken")

    async def _wait(self, progress: Progress, at_most_s: float, release_memory: Callable[[], None]) -> bool:
        """Waits for news, and returns whether there is some.

        After a long wait it returns memory of other results, because the next one may need it.
        """
        began = time.monotonic()
        has_news = await progress.wait(self._news, at_most_s)
        if time.monotonic() - began >= MEMORY_CHECK_S:
            release_memory()
        return has_news


class AsyncBatchIterator(LoopIterator[RowBatch]):
    """Batches of results, as `headgate.amap_batches` returns them: see `headgate.BatchIterator`.

    It can be used as an asynchronous context manager, which closes it. Any tasks of its loop may iterate: each batch
    goes to one of them. An error is raised in one task, and ends the iteration in the others.

    >>> table = pyarrow.table({"id": range(100)})
    >>> async with headgate.amap_batches(table, url="http://127.0.0.1:8080/{id}") as batches:
    ...     print((await anext(batches)).num_rows > 0, batches.statistics().succeeded > 0)
    True True
    """

    __module__ = "headgate"

    def __init__(
        self,
        flow: BatchFlow,
        supply: Callable[[Callable[[], None]], AsyncSupply],
        progress: ProgressTarget,
        check: Callable[[bool], None] = _is_fine,
    ) -> None:
        """`supply` gets the function to call when it has input. `check`: as for `BatchIterator`."""
        super().__init__()
        self._check = check
        self._flow = flow
        self._supply = supply(self._news.set)
        # Not the method of this object, so that dropping it drops everything.
        self._progress = Progress(progress, partial(statistics_of, flow))
        self._is_closed = False
        self._has_ended = False
        """Whether all batches were returned."""
        self._is_over = False
        """Whether it is closed, and nothing of it runs."""

    def statistics(self) -> Snapshot:
        """Returns the progress of this call and of all calls that share its limits."""
        return statistics_of(self._flow)

    async def table(self) -> BatchTable:
        """Returns all remaining batches as one table.

        >>> table = pyarrow.table({"id": range(100)})
        >>> async with headgate.amap_batches(table, url="http://127.0.0.1:8080/{id}") as batches:
        ...     print(pyarrow.table(await batches.table()).num_rows)
        100

        Raises:
            ClosedEarly: Another task closed it.
            Exception: As `anext`.
        """
        was_closed = self._is_closed
        try:
            batches = [batch async for batch in self]
            if not (self._has_ended or was_closed):
                raise ClosedEarly("another task closed it: there may have been more rows")
            return self._flow.table(batches)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Cancels what is in flight, and ends the iteration. Idempotent.

        >>> batches = headgate.amap_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}")
        >>> await batches.aclose()
        >>> [batch async for batch in batches]
        []
        """
        if self._is_over:
            return
        self._is_closed = True
        self._news.set()
        self._progress.close()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._flow.fileno())
        # If it is cancelled here, it is not over: another call waits for the same end.
        await self._supply.aclose(self._flow)
        self._is_over = True

    async def _next(self) -> RowBatch | None:
        if self._loop is None and not self._is_closed:
            self._watch(self._flow.fileno())
        while not self._is_closed:
            self._check_loop()
            self._news.clear()
            batch, has_ended, wants_more = await self._supply.step(self._flow)
            if has_ended:
                self._has_ended = not self._is_closed
                self._progress.end()
                if self._supply.failure is not None:
                    raise self._supply.failure
                return None
            self._progress.update_if_due()
            if batch is not None:
                return batch
            if not (wants_more and await self._supply.feed(self._flow)):
                ready_in_s = self._flow.ready_in_s()
                wait_s = MEMORY_CHECK_S if ready_in_s is None else min(ready_in_s, MEMORY_CHECK_S)
                wait = self._wait(self._progress, wait_s, self._flow.release_memory)
                self._check(await await_interruptibly(wait) or ready_in_s is not None)
        if self._was_cancelled:
            raise ClosedEarly("a wait for it was cancelled: there may have been more")
        return None

    def _on_readable(self) -> None:
        self._flow.clear_wakeup()
        self._news.set()

    def __del__(self) -> None:
        if getattr(self, "_is_over", True):
            return
        self._progress.close()
        loop, flow, supply = self._loop, self._flow, self._supply
        # It may be collected in any thread. The descriptor must stay open until the loop no longer watches it.
        if loop is None or not call_soon_in(loop, _end, loop, flow, supply):
            flow.close()


def _end(loop: asyncio.AbstractEventLoop, flow: BatchFlow, supply: AsyncSupply) -> None:
    loop.remove_reader(flow.fileno())
    supply.cancel(flow)
