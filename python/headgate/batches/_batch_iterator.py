"""One call: iterators over batches of results, for threads and for event loops."""

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
from headgate.batches._supply import LOOK_S, InThreads, Pulled, Supply, async_tables_of, begin_in_ours, soon_in
from headgate.jobs._notebook import ends_iteration, in_turns
from headgate.jobs._progress import Progress, Told

T = TypeVar("T")

_SLICE_S: Final = 0.1
"""How long to wait at a time: then signals are looked at."""


class BatchIterator(Iterator[RowBatch]):
    """Batches of results, as `headgate.map_batches` returns them.

    Each batch has `num_rows` and `__arrow_c_array__`: `pyarrow.record_batch(batch)` and `polars.DataFrame(batch)`
    accept it. All of them together are a stream of record batches (`__arrow_c_stream__`), which can be read once:
    `pyarrow.RecordBatchReader.from_stream(batches)` and `polars.DataFrame(batches)` accept that.

    It can be used as a context manager, which ends it. One thread at a time can take batches from it.

    >>> table = pyarrow.table({"id": range(100)})
    >>> with headgate.map_batches(table, url="http://127.0.0.1:8080/{id}") as batches:
    ...     print(next(batches).num_rows > 0)
    True
    """

    def __init__(self, flow: BatchFlow, supply: Supply, progress: Told) -> None:
        self._supply = supply
        self._flow = flow
        self._knows_columns = not supply.decides_columns
        # Not its own method: dropping this drops all of it.
        self._progress = Progress(progress, partial(statistics_of, flow))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> RowBatch:
        """The next batch; waits until there is one.

        Raises:
            InputError: A batch of the input lacks a column that is needed, or has other columns than the first one.
            TypeError: What the input yields is no batch.
        """
        try:
            batch = self._next()
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    @property
    def schema(self) -> RowSchema:
        """The columns of all batches (`__arrow_c_schema__`). The first batch of the input is taken for that.

        >>> with headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     print(pyarrow.schema(batches.schema).names[-1])
        id

        Raises:
            InputError: As `next`.
        """
        if not self._knows_columns:
            self._give()
        return self._flow.schema

    def statistics(self) -> Snapshot:
        """How far it is, together with all that shares its limits.

        >>> with headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     batch = next(batches)
        ...     print(batches.statistics().answered > 0)
        True
        """
        return statistics_of(self._flow)

    def table(self) -> BatchTable:
        """All batches that were not taken yet, as one table. Raises as `next`.

        >>> with headgate.map_batches(pyarrow.table({"id": [1, 2]}), url="http://127.0.0.1:8080/{id}") as batches:
        ...     print(pyarrow.table(batches.table()).num_rows)
        2
        """
        return self._flow.table(list(self))

    def close(self) -> None:
        """Ends it: what is in flight is cancelled, and there are no more batches. Connections are kept.

        >>> batches = headgate.map_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}")
        >>> batches.close()
        >>> list(batches)
        []
        """
        self._flow.close()
        self._progress.leave()
        # The last: a generator of the caller may raise when it is closed.
        self._supply.close()

    def __arrow_c_schema__(self) -> object:
        """See `schema`."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """A stream of those batches that were not taken yet; it has its own schema whatever is requested."""
        del requested_schema
        self.__arrow_c_schema__()
        return self._flow.stream(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self) -> RowBatch | None:
        while True:
            batch, has_ended, wants_more = self._flow.step(_SLICE_S)
            if has_ended:
                self._progress.end()
                if self._supply.failure is not None:
                    raise self._supply.failure
                return None
            self._progress.look()
            if batch is not None:
                return batch
            if wants_more:
                self._give()

    def _give(self) -> None:
        self._knows_columns = True
        self._supply.give(self._flow)


def statistics_of(flow: BatchFlow) -> Snapshot:
    """How far a call is, together with all that shares its limits."""
    return Snapshot.from_json(flow.snapshot())


class AsyncSupply(Protocol):
    """What goes into a call. What of it may take long is done in threads."""

    async def give(self, flow: BatchFlow) -> bool:
        """Gives it what there is, or says that there is none any more. Whether it did."""
        ...

    async def step(self, flow: BatchFlow) -> tuple[RowBatch | None, bool, bool]:
        """Goes on without waiting for anything to arrive. Cancelling this loses nothing: it goes on with the next."""
        ...

    async def aclose(self, flow: BatchFlow) -> None:
        """Ends the call. Again, also where that was cancelled: waits until it has ended."""

    @property
    def failure(self) -> BaseException | None:
        """What taking it from the caller has raised. It is raised again when what came before is done."""
        ...

    def cancel(self, flow: BatchFlow) -> None:
        """Ends the call without waiting, in the thread of its loop."""


class AsyncTables:
    """Tables, one after the other. What reads them may take its time: that is done in threads."""

    def __init__(self, batches: object, tell: Callable[[], None]) -> None:
        """As `Tables`, also of an asynchronous iterable; `tell` is called in the loop when there is one."""
        source = async_tables_of(batches)
        self._pulled = Pulled(InThreads(source) if isinstance(source, Iterator) else source, 1, tell)
        self._given: list[object] = []
        self._stepping: asyncio.Future[tuple[RowBatch | None, bool, bool]] | None = None

    async def give(self, flow: BatchFlow) -> bool:
        """Gives the next table with the next step, if there is one."""
        self._pulled.begin()
        tables, has_ended = self._pulled.take()
        self._given += tables
        if not tables and has_ended:
            flow.end()
        return bool(tables) or has_ended

    @property
    def failure(self) -> BaseException | None:
        """What reading them has raised."""
        return self._pulled.failure

    async def step(self, flow: BatchFlow) -> tuple[RowBatch | None, bool, bool]:
        """Goes on: rows are read of a table meanwhile."""
        while True:
            if self._stepping is None:
                given, self._given = self._given, []
                self._stepping = begin_in_ours(_step, flow, given)
                self._stepping.add_done_callback(_look_at)
            stepping = self._stepping
            # If this wait is cancelled, the next call goes on with it.
            await asyncio.wait((stepping,))
            if self._stepping is stepping:
                self._stepping = None
                return stepping.result()

    async def aclose(self, flow: BatchFlow) -> None:
        """Ends the call, after what is being read."""
        self._pulled.cancel()
        await begin_in_ours(flow.close)
        await self._pulled.aclose()

    def cancel(self, flow: BatchFlow) -> None:
        """Ends the call; it would block the loop while a table is read."""
        self._pulled.cancel()
        begin_in_ours(flow.close)


def _step(flow: BatchFlow, tables: list[object]) -> tuple[RowBatch | None, bool, bool]:
    for table in tables:
        flow.take_from(table)
    return flow.step(0.0)


def _look_at(stepped: "asyncio.Future[tuple[RowBatch | None, bool, bool]]") -> None:
    """Retrieves the error: otherwise asyncio logs that it was never retrieved."""
    if not stepped.cancelled():
        stepped.exception()


class LoopIterator(AsyncIterator[T]):
    """An iterator in an event loop that watches a descriptor of the engine, and a block that ends it."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_cut = False
        """It was closed because a wait for it was cancelled."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        """The next result. Raises as `next` of the iterator for threads.

        Cancelling this, as a timeout does, loses nothing: the next call goes on. In a notebook, where that is how a
        cell is interrupted, it ends the iteration, and the next call raises `ClosedEarly`.
        """
        try:
            result = await self._next()
        except BaseException as error:
            if ends_iteration(error):
                self._is_cut = isinstance(error, asyncio.CancelledError)
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
        """Ends it."""

    @abstractmethod
    async def _next(self) -> T | None:
        """Waits for the next result, and returns it, or `None` at the end."""

    @abstractmethod
    def _on_readable(self) -> None:
        """Takes what has arrived, and sets `_news`."""

    def _watch(self, descriptor: int) -> None:
        """Has the loop watch the descriptor, which doesn't keep this alive when no task iterates over it."""
        self._loop = asyncio.get_running_loop()
        here = weakref.ref(self)

        def on_readable() -> None:
            iterator = here()
            if iterator is not None:
                iterator._on_readable()  # noqa: SLF001 - it is one of ours

        self._loop.add_reader(descriptor, on_readable)

    async def _wait(self, progress: Progress, at_most_s: float, release_memory: Callable[[], None]) -> None:
        """Waits for news. What comes next may wait for memory that results of other requests have."""
        began = time.monotonic()
        await progress.wait(self._news, at_most_s)
        if time.monotonic() - began >= LOOK_S:
            release_memory()


class AsyncBatchIterator(LoopIterator[RowBatch]):
    """Batches of results, as `headgate.amap_batches` returns them: see `headgate.BatchIterator`.

    It can be used as an asynchronous context manager, which ends it. One task takes batches from it.

    >>> table = pyarrow.table({"id": range(100)})
    >>> async with headgate.amap_batches(table, url="http://127.0.0.1:8080/{id}") as batches:
    ...     print((await anext(batches)).num_rows > 0, batches.statistics().answered > 0)
    True True
    """

    def __init__(self, flow: BatchFlow, supply: Callable[[Callable[[], None]], AsyncSupply], progress: Told) -> None:
        """`supply` is told what to call when it has something."""
        super().__init__()
        self._flow = flow
        self._supply = supply(self._news.set)
        # Not its own method: dropping this drops all of it.
        self._progress = Progress(progress, partial(statistics_of, flow))
        self._is_closed = False
        self._has_ended = False
        """All batches were taken."""
        self._is_over = False
        """It is closed, and nothing of it goes on."""

    def statistics(self) -> Snapshot:
        """How far it is, together with all that shares its limits."""
        return statistics_of(self._flow)

    async def table(self) -> BatchTable:
        """All batches that were not taken yet, as one table.

        >>> table = pyarrow.table({"id": range(100)})
        >>> async with headgate.amap_batches(table, url="http://127.0.0.1:8080/{id}") as batches:
        ...     print(pyarrow.table(await batches.table()).num_rows)
        100

        Raises:
            ClosedEarly: Another task closes it meanwhile.
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
        """Ends it: what is in flight is cancelled, and there are no more batches. Again: nothing.

        >>> batches = headgate.amap_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}")
        >>> await batches.aclose()
        >>> [batch async for batch in batches]
        []
        """
        if self._is_over:
            return
        self._is_closed = True
        self._news.set()
        self._progress.leave()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._flow.fileno())
        # Cancelled here, it is not over: closing it again waits for the same.
        await self._supply.aclose(self._flow)
        self._is_over = True

    async def _next(self) -> RowBatch | None:
        if self._loop is None and not self._is_closed:
            self._watch(self._flow.fileno())
        while not self._is_closed:
            self._news.clear()
            batch, has_ended, wants_more = await self._supply.step(self._flow)
            if has_ended:
                self._has_ended = not self._is_closed
                self._progress.end()
                if self._supply.failure is not None:
                    raise self._supply.failure
                return None
            self._progress.look()
            if batch is not None:
                return batch
            if not (wants_more and await self._supply.give(self._flow)):
                ready_in_s = self._flow.ready_in_s()
                wait_s = LOOK_S if ready_in_s is None else min(ready_in_s, LOOK_S)
                await in_turns(self._wait(self._progress, wait_s, self._flow.release_memory))
        if self._is_cut:
            raise ClosedEarly("a wait for it was cancelled: there may have been more")
        return None

    def _on_readable(self) -> None:
        self._flow.quiet()
        self._news.set()

    def __del__(self) -> None:
        if getattr(self, "_is_over", True):
            return
        self._progress.leave()
        loop, flow, supply = self._loop, self._flow, self._supply
        # It may be collected in any thread. The descriptor has to be there until it is not watched any more.
        if loop is None or not soon_in(loop, _end, loop, flow, supply):
            flow.close()


def _end(loop: asyncio.AbstractEventLoop, flow: BatchFlow, supply: AsyncSupply) -> None:
    loop.remove_reader(flow.fileno())
    supply.cancel(flow)
