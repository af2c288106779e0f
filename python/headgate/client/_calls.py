"""Tables and batches of a client: calls that share the connections and limits of its engine."""

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable
from typing import Any, Final

from headgate._errors import UsageError
from headgate._native import BatchFlow, RowBatch
from headgate._option import OptionSet
from headgate.batches._batch_iterator import AsyncBatchIterator, AsyncTableSupply, BatchIterator
from headgate.batches._supply import Pulled, TableSupply
from headgate.client._client_options import ClientOptions
from headgate.client._engine import Engine
from headgate.client._flow import RequestSource
from headgate.client._native_requests import natives_of
from headgate.client._open_streams import OpenStreams, WaitCheck
from headgate.client._request import RequestLike
from headgate.client._table_options import BATCHES, options_of
from headgate.client._tag_column import TagColumn
from headgate.jobs._auth import is_function
from headgate.jobs._progress import ProgressTarget

BATCH: Final = 1024
"""The number of requests that are passed to the engine at once, which is the engine's own batch size."""


class RequestSupply:
    """Feeds requests, each time as many as can be read without a long wait."""

    decides_columns = True

    def __init__(self, source: RequestSource, options: ClientOptions, tags: TagColumn) -> None:
        self._source = source
        self._options = options
        self._tags = tags

    def feed(self, flow: BatchFlow) -> None:
        """Feeds the next requests."""
        _submit(self._source.take(BATCH), flow, self._options, self._tags)
        if self._source.has_ended:
            flow.finish_input()

    @property
    def failure(self) -> BaseException | None:
        """The error that reading the requests raised."""
        return self._source.failure

    def close(self) -> None:
        """Stops reading requests."""
        self._source.cancel()


class AsyncRequestSupply:
    """Feeds requests of an iterable, or of an async iterable. An iterable is read in the thread of the loop."""

    def __init__(
        self,
        requests: Iterable[RequestLike] | AsyncIterable[RequestLike],
        options: ClientOptions,
        tags: TagColumn,
        notify: Callable[[], None],
    ) -> None:
        self._options = options
        self._tags = tags
        self._source: RequestSource | Pulled[RequestLike] = (
            Pulled(aiter(requests), BATCH, notify) if isinstance(requests, AsyncIterable) else RequestSource(requests)
        )

    async def feed(self, flow: BatchFlow) -> bool:
        """Feeds the requests that are available. Returns whether the caller should continue at once."""
        if isinstance(self._source, RequestSource):
            # Before requests are taken, because a cancellation here would lose them.
            await asyncio.sleep(0)
            requests = self._source.take(BATCH)
            has_ended = self._source.has_ended
        else:
            self._source.begin()
            requests, has_ended = self._source.take()
        _submit(requests, flow, self._options, self._tags)
        if has_ended:
            flow.finish_input()
        return bool(requests) or has_ended

    async def step(self, flow: BatchFlow) -> tuple[RowBatch | None, bool, bool]:
        """Makes columns of the responses that have arrived, and does nothing that takes longer."""
        return flow.step(0.0)

    async def aclose(self, flow: BatchFlow) -> None:
        """Ends the call, and waits until an asynchronous source is closed."""
        self.cancel(flow)
        if isinstance(self._source, Pulled):
            await self._source.aclose()

    def cancel(self, flow: BatchFlow) -> None:
        """Ends the call without waiting."""
        flow.close()
        self._source.cancel()

    @property
    def failure(self) -> BaseException | None:
        """The error that reading the requests raised."""
        return self._source.failure


def _submit(requests: list[RequestLike], flow: BatchFlow, options: ClientOptions, tags: TagColumn) -> None:
    if requests:
        natives = natives_of(requests, options)
        flow.submit(natives, tags.tags_of(requests, natives))


class BatchMode:
    """Switches an iterator of `fetch_many` from outcomes to batches, once."""

    def __init__(self, engine: Engine, wait_check: WaitCheck, progress: ProgressTarget) -> None:
        self._engine = engine
        self._wait_check = wait_check
        self._progress = progress
        self._is_active = False

    def to_arrow_batches(
        self, requests: RequestSource | None, given: dict[str, Any], *, has_begun: bool
    ) -> BatchIterator:
        """Returns an iterator over batches of the results.

        Raises:
            RuntimeError: There are no requests, or some were started or submitted.
        """
        self._enter(has_begun=has_begun, is_empty=requests is None)
        tags = _without_tag(given)
        source = RequestSupply(RequestSource(()) if requests is None else requests, self._engine.options, tags)
        return BatchIterator(self._begin(given, watched=False), source, self._progress, self._wait_check.check)

    def to_async_arrow_batches(
        self,
        requests: Iterable[RequestLike] | AsyncIterable[RequestLike] | None,
        given: dict[str, Any],
        *,
        has_begun: bool,
    ) -> AsyncBatchIterator:
        """Returns the iterator for an event loop. Raises as `to_arrow_batches`."""
        self._enter(has_begun=has_begun, is_empty=requests is None)
        tags = _without_tag(given)
        source, flow = (() if requests is None else requests), self._begin(given, watched=True)
        return AsyncBatchIterator(
            flow,
            lambda notify: AsyncRequestSupply(source, self._engine.options, tags, notify),
            self._progress,
            self._wait_check.check,
        )

    def check_outcomes(self) -> None:
        """Checks that an iterator without outcomes was not switched to batches.

        Raises:
            RuntimeError: It was.
        """
        if self._is_active:
            raise RuntimeError("to_arrow_batches() was called: its results come in batches, and there are no outcomes")

    def _enter(self, *, has_begun: bool, is_empty: bool) -> None:
        if self._is_active:
            raise RuntimeError("to_arrow_batches() was called before: take the results from what it returned")
        if has_begun:
            raise RuntimeError(
                "to_arrow_batches() comes first: outcomes were taken, requests submitted, or it was closed"
            )
        if is_empty:
            raise RuntimeError("to_arrow_batches() needs requests: call fetch_many(requests).to_arrow_batches()")
        self._is_active = True

    def _begin(self, given: dict[str, Any], *, watched: bool) -> BatchFlow:
        options = options_of(BATCHES, given, self._engine.options)
        flow = self._engine.native.start_requests(options, watched)
        return flow if flow is not None else self._engine.raise_closed()


def _without_tag(given: dict[str, Any]) -> TagColumn:
    """Returns the column of tags, and removes it from the `drop` of a call: the engine knows its own columns only."""
    drop = given.get("drop")
    names = [name.strip() for name in drop.split(",")] if isinstance(drop, str) else drop
    if not isinstance(names, list | tuple | set | frozenset) or "tag" not in names:
        return TagColumn(is_dropped=False)
    given["drop"] = [name for name in names if name != "tag"]
    return TagColumn(is_dropped=True)


def tables(
    streams: OpenStreams, base_url: str, batches: object, options: OptionSet[Any], given: dict[str, Any]
) -> BatchIterator:
    """Returns an iterator over batches of results for tables.

    Raises:
        UsageError: An option has an invalid value.
        TypeError: There is no such option, or `batches` is no table.
        RuntimeError: The client is closed.
    """
    engine = streams.engine
    _check_auth(engine)
    supply, of_call = TableSupply(batches), options_of(options, given, engine.options)
    flow = engine.native.start_tables(of_call, base_url, watched=False)
    flow = flow if flow is not None else engine.raise_closed()
    return BatchIterator(flow, supply, of_call.progress, WaitCheck(streams, "thread").check)


def async_tables(
    streams: OpenStreams, base_url: str, batches: object, options: OptionSet[Any], given: dict[str, Any]
) -> AsyncBatchIterator:
    """Returns the iterator for an event loop. Raises as `tables`."""
    engine = streams.engine
    _check_auth(engine)
    of_call = options_of(options, given, engine.options)
    flow = engine.native.start_tables(of_call, base_url, watched=True)
    flow = flow if flow is not None else engine.raise_closed()
    check = WaitCheck(streams, "task").check
    return AsyncBatchIterator(flow, lambda notify: AsyncTableSupply(batches, notify), of_call.progress, check)


def _check_auth(engine: Engine) -> None:
    if is_function(engine.options.auth):
        raise UsageError(
            "auth of this client is a function, which changes requests one by one, and not rows of a table:"
            " give the client ('name', 'password') or an object with token()"
        )
