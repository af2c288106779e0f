"""One call in an event loop: an asynchronous iterator over batches of results."""

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from headgate._errors import ClosedEarly
from headgate._native import BatchFlow, BatchTable, RowBatch
from headgate._summary import Snapshot
from headgate.batches._batch_iterator import statistics_of
from headgate.batches._pulled import Pulled
from headgate.batches._supply import LOOK_S, async_tables_of
from headgate.batches._threads import InThreads, begin_in_ours, soon_in
from headgate.jobs._notebook import ends_iteration, in_turns
from headgate.jobs._progress import Progress, Told


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
        """Ends the call where nobody can wait for it: in the thread of its loop."""


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
            # Who is cancelled here leaves it to who comes next.
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
    """Otherwise asyncio tells of an error that nobody has taken."""
    if not stepped.cancelled():
        stepped.exception()


class AsyncBatchIterator(AsyncIterator[RowBatch]):
    """Batches of results, as `headgate.amap_batches` returns them: see `headgate.BatchIterator`.

    It can be used as an asynchronous context manager, which ends it. One task takes batches from it.

    >>> table = pyarrow.table({"id": range(100)})
    >>> async with headgate.amap_batches(table, url="http://127.0.0.1:8080/{id}") as batches:
    ...     print((await anext(batches)).num_rows > 0, batches.statistics().answered > 0)
    True True
    """

    def __init__(self, flow: BatchFlow, supply: Callable[[Callable[[], None]], AsyncSupply], progress: Told) -> None:
        """`supply` is told what to call when it has something."""
        self._news = asyncio.Event()
        self._flow = flow
        self._supply = supply(self._news.set)
        # Not its own method: who drops this drops all of it.
        self._progress = Progress(progress, partial(statistics_of, flow))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self._has_ended = False
        """All batches were taken."""
        self._is_cut = False
        """It was closed because a wait for it was cancelled."""
        self._is_over = False
        """It is closed, and nothing of it goes on."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RowBatch:
        """The next batch. Raises as that of a `BatchIterator`.

        Cancelling this, as a timeout does, loses nothing: the next call goes on. In a notebook, where that is how a
        cell is interrupted, it ends the call, and the next one raises `ClosedEarly`.
        """
        try:
            batch = await self._next()
        except BaseException as error:
            if ends_iteration(error):
                self._is_cut = isinstance(error, asyncio.CancelledError)
                await self.aclose()
            raise
        if batch is None:
            await self.aclose()
            raise StopAsyncIteration
        return batch

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
        # Cancelled here, it is not over: who closes it again waits for the same.
        await self._supply.aclose(self._flow)
        self._is_over = True

    async def _next(self) -> RowBatch | None:
        if self._loop is None and not self._is_closed:
            self._watch(asyncio.get_running_loop())
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
                await in_turns(self._wait())
        if self._is_cut:
            raise ClosedEarly("a wait for it was cancelled: there may have been more")
        return None

    async def _wait(self) -> None:
        """Waits for news. What comes next may wait for memory that results of other calls have."""
        ready_in_s = self._flow.ready_in_s()
        began = time.monotonic()
        await self._progress.wait(self._news, LOOK_S if ready_in_s is None else min(ready_in_s, LOOK_S))
        if time.monotonic() - began >= LOOK_S:
            self._flow.give_memory_back()

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has the loop watch for results; that does not keep this alive when nobody takes them."""
        self._loop = loop
        flow, here = self._flow, weakref.ref(self)

        def tell() -> None:
            flow.quiet()
            batches = here()
            if batches is not None:
                batches._news.set()  # noqa: SLF001 - it is one of ours

        loop.add_reader(flow.fileno(), tell)

    def __del__(self) -> None:
        if getattr(self, "_is_over", True):
            return
        self._progress.leave()
        loop, flow, supply = self._loop, self._flow, self._supply
        # Whatever thread collects it. The descriptor has to be there until it is not watched any more.
        if loop is None or not soon_in(loop, _end, loop, flow, supply):
            flow.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _end(loop: asyncio.AbstractEventLoop, flow: BatchFlow, supply: AsyncSupply) -> None:
    loop.remove_reader(flow.fileno())
    supply.cancel(flow)
