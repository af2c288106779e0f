"""One call in an event loop: an asynchronous iterator over batches of results."""

import asyncio
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from types import TracebackType
from typing import Protocol, Self

from headgate._native import BatchFlow, BatchTable, RowBatch
from headgate._summary import Snapshot
from headgate.batches._batch_iterator import statistics_of
from headgate.batches._pulled import Pulled, in_threads
from headgate.batches._supply import LOOK_S, async_tables_of
from headgate.jobs._notebook import in_turns
from headgate.jobs._progress import Progress, Told


class AsyncSupply(Protocol):
    """What goes into a call. What of it may take long is done in threads."""

    async def give(self, flow: BatchFlow) -> bool:
        """Gives it what there is, or says that there is none any more. Whether it did."""
        ...

    async def step(self, flow: BatchFlow) -> tuple[RowBatch | None, bool, bool]:
        """Goes on without waiting for anything to arrive."""
        ...

    async def aclose(self, flow: BatchFlow) -> None:
        """Ends the call."""

    @property
    def failure(self) -> Exception | None:
        """What taking it from the caller has raised. It is raised again when what came before is done."""
        ...

    def cancel(self) -> None:
        """Takes no more of what the caller has: where nobody can wait for it."""


class AsyncTables:
    """Tables, one after the other. What reads them may take its time: that is done in threads."""

    failure: Exception | None = None

    def __init__(self, batches: object, tell: Callable[[], None]) -> None:
        """As `Tables`, also of an asynchronous iterable; `tell` is called in the loop when there is one."""
        source = async_tables_of(batches)
        self._pulled = Pulled(in_threads(source) if isinstance(source, Iterator) else source, 1, tell)

    async def give(self, flow: BatchFlow) -> bool:
        """Gives the next table, if there is one."""
        self._pulled.begin()
        tables, has_ended = self._pulled.take()
        for table in tables:
            await asyncio.to_thread(flow.take_from, table)
        if not tables and has_ended:
            flow.end()
        return bool(tables) or has_ended

    async def step(self, flow: BatchFlow) -> tuple[RowBatch | None, bool, bool]:
        """Goes on: rows are read of a table meanwhile."""
        return await asyncio.to_thread(flow.step, 0.0)

    async def aclose(self, flow: BatchFlow) -> None:
        """Ends the call, after what is being read."""
        await self._pulled.aclose()
        await asyncio.to_thread(flow.close)

    def cancel(self) -> None:
        """Takes no more tables."""
        self._pulled.cancel()


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

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> RowBatch:
        """The next batch. Raises as that of a `BatchIterator`."""
        try:
            batch = await self._next()
        except BaseException:
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
        """
        try:
            return self._flow.table([batch async for batch in self])
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Ends it: what is in flight is cancelled, and there are no more batches. Again: nothing.

        >>> batches = headgate.amap_batches(pyarrow.table({"id": [1]}), url="http://127.0.0.1:8080/{id}")
        >>> await batches.aclose()
        >>> [batch async for batch in batches]
        []
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._progress.leave()
        if self._loop is not None:
            self._loop.remove_reader(self._flow.fileno())
        await self._supply.aclose(self._flow)
        self._news.set()

    async def _next(self) -> RowBatch | None:
        if self._loop is None and not self._is_closed:
            self._watch(asyncio.get_running_loop())
        while not self._is_closed:
            self._news.clear()
            batch, has_ended, wants_more = await self._supply.step(self._flow)
            if has_ended:
                self._progress.end()
                if self._supply.failure is not None:
                    raise self._supply.failure
                return None
            self._progress.look()
            if batch is not None:
                return batch
            if not (wants_more and await self._supply.give(self._flow)):
                await in_turns(self._wait())
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
        if getattr(self, "_is_closed", True):
            return
        loop, flow, supply = self._loop, self._flow, self._supply
        if loop is not None and not loop.is_closed():
            # Whatever thread collects it. The descriptor has to be there until it is not watched any more.
            loop.call_soon_threadsafe(_end, loop, flow, supply)
        else:
            flow.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _end(loop: asyncio.AbstractEventLoop, flow: BatchFlow, supply: AsyncSupply) -> None:
    loop.remove_reader(flow.fileno())
    supply.cancel()
    flow.close()
