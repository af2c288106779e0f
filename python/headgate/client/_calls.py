"""Tables and batches of a client: calls on its engine, which share its connections and limits."""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, Final

from headgate._native import BatchFlow, RowBatch
from headgate._option import OptionSet
from headgate.batches._batch_iterator import AsyncBatchIterator, AsyncTables, BatchIterator
from headgate.batches._supply import Pulled, Tables
from headgate.client._engine import Engine
from headgate.client._flow import Source
from headgate.client._request import Asked, natives_of
from headgate.client._table_options import BATCHES, asked_of
from headgate.jobs._progress import Told

BATCH: Final = 1024
"""Requests that are handed over at once: as many as the engine takes."""


class Requests:
    """Requests, as many at a time as there are without waiting long."""

    decides_columns = False

    def __init__(self, source: Source, base_url: str) -> None:
        self._source = source
        self._base_url = base_url

    def give(self, flow: BatchFlow) -> None:
        """Gives the next ones."""
        flow.feed(natives_of(self._source.take(BATCH), self._base_url))
        if self._source.has_ended:
            flow.end()

    @property
    def failure(self) -> BaseException | None:
        """What reading them has raised."""
        return self._source.failure

    def close(self) -> None:
        """Takes no more of them."""
        self._source.cancel()


class AsyncRequests:
    """Requests of an iterable that may be asynchronous; one that is not is iterated over in the loop."""

    def __init__(
        self, requests: Iterable[Asked] | AsyncIterable[Asked], base_url: str, tell: Callable[[], None]
    ) -> None:
        self._base_url = base_url
        self._source: Source | Pulled[Asked] = (
            Pulled(aiter(requests), BATCH, tell) if isinstance(requests, AsyncIterable) else Source(requests)
        )

    async def give(self, flow: BatchFlow) -> bool:
        """Gives those that there are. Returns whether it is worth trying again at once."""
        if isinstance(self._source, Source):
            some = self._source.take(BATCH)
            has_ended = self._source.has_ended
            await asyncio.sleep(0)
        else:
            self._source.begin()
            some, has_ended = self._source.take()
        flow.feed(natives_of(some, self._base_url))
        if has_ended:
            flow.end()
        return bool(some) or has_ended

    async def step(self, flow: BatchFlow) -> tuple[RowBatch | None, bool, bool]:
        """Goes on: it makes columns of what has come, and nothing that takes longer."""
        return flow.step(0.0)

    async def aclose(self, flow: BatchFlow) -> None:
        """Ends the call, and waits until an asynchronous source is closed."""
        self.cancel(flow)
        if isinstance(self._source, Pulled):
            await self._source.aclose()

    def cancel(self, flow: BatchFlow) -> None:
        """Ends the call."""
        flow.close()
        self._source.cancel()

    @property
    def failure(self) -> BaseException | None:
        """What reading them has raised."""
        return self._source.failure


class Bulk:
    """The requests of `fetch_many`, for `batches()`."""

    def __init__(self, engine: Engine, base_url: str, progress: Told) -> None:
        self._engine = engine
        self._base_url = base_url
        self._progress = progress
        self._is_taken = False

    def batches(self, requests: Source | None, given: dict[str, Any], *, has_begun: bool) -> BatchIterator:
        """Batches of the results.

        Raises:
            RuntimeError: There are no requests, or some were asked for.
        """
        self._take(has_begun=has_begun, is_empty=requests is None)
        source = Requests(Source(()) if requests is None else requests, self._base_url)
        return BatchIterator(self._begin(given, watched=False), source, self._progress)

    def async_batches(
        self, requests: Iterable[Asked] | AsyncIterable[Asked] | None, given: dict[str, Any], *, has_begun: bool
    ) -> AsyncBatchIterator:
        """The same for a loop. Raises as `batches`."""
        self._take(has_begun=has_begun, is_empty=requests is None)
        source, flow = (() if requests is None else requests), self._begin(given, watched=True)
        return AsyncBatchIterator(flow, lambda tell: AsyncRequests(source, self._base_url, tell), self._progress)

    def refuse_outcomes(self) -> None:
        """To be called where there are no more outcomes.

        Raises:
            RuntimeError: Batches were asked for in their place.
        """
        if self._is_taken:
            raise RuntimeError("batches() was called: its results come in batches, and there are no outcomes")

    def _take(self, *, has_begun: bool, is_empty: bool) -> None:
        if self._is_taken:
            raise RuntimeError("batches() was called before: take the results from what it returned")
        if has_begun:
            raise RuntimeError("batches() comes first: outcomes were taken, requests submitted, or it was closed")
        if is_empty:
            raise RuntimeError("batches() needs requests: call fetch_many(requests).batches()")
        self._is_taken = True

    def _begin(self, given: dict[str, Any], *, watched: bool) -> BatchFlow:
        asked = asked_of(BATCHES, given, self._engine.options)
        flow = self._engine.native.requests(asked, watched)
        return flow if flow is not None else self._engine.refuse()


def tables(
    engine: Engine, base_url: str, batches: object, options: OptionSet[Any], given: dict[str, Any]
) -> BatchIterator:
    """Batches of results for tables.

    Raises:
        UsageError: An option can't be.
        TypeError: There is no such option, or `batches` is no table.
        RuntimeError: The client is closed.
    """
    supply, asked = Tables(batches), asked_of(options, given, engine.options)
    flow = engine.native.tables(asked, base_url, watched=False)
    return BatchIterator(flow if flow is not None else engine.refuse(), supply, asked.progress)


def async_tables(
    engine: Engine, base_url: str, batches: object, options: OptionSet[Any], given: dict[str, Any]
) -> AsyncBatchIterator:
    """The same for a loop. Raises as `tables`."""
    asked = asked_of(options, given, engine.options)
    flow = engine.native.tables(asked, base_url, watched=True)
    flow = flow if flow is not None else engine.refuse()
    return AsyncBatchIterator(flow, lambda tell: AsyncTables(batches, tell), asked.progress)
