"""Many requests of a coroutine."""

import asyncio
import time
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from types import TracebackType
from typing import Final, Self, Unpack

from headgate._errors import ClosedEarly
from headgate.batches._async_batches import AsyncBatchIterator
from headgate.batches._pulled import Pulled
from headgate.batches._supply import LOOK_S
from headgate.batches._threads import soon_in
from headgate.client._calls import Bulk
from headgate.client._engine import Engine
from headgate.client._flow import BATCH, Flow
from headgate.client._outcome import Outcome
from headgate.client._request import Asked
from headgate.client._source import Source
from headgate.client._table_options import BATCHES, ResultKeywords
from headgate.jobs._notebook import ends_iteration, in_turns
from headgate.jobs._progress import Progress, Told

MOST: Final = 1024
"""Outcomes that are taken in one turn of the loop."""


class AsyncFetchMany(AsyncIterator[Outcome]):
    """Outcomes of many requests, as `AsyncClient.fetch_many` gives them.

    One task iterates; others of its loop may submit.

    >>> async with client.fetch_many(["/hello", "/status/404"], ordered=True) as outcomes:
    ...     print([outcome.unwrap().status_code async for outcome in outcomes])
    [200, 404]
    """

    def __init__(
        self,
        engine: Engine,
        base_url: str,
        requests: Iterable[Asked] | AsyncIterable[Asked] | None,
        *,
        ordered: bool,
        progress: Told = False,
    ) -> None:
        self._progress = Progress(progress, engine.statistics)
        self._flow = Flow(engine, base_url, watched=True, ordered=ordered)
        self._news = asyncio.Event()
        self._source: Source | None = None
        self._pulled: Pulled[Asked] | None = None
        if isinstance(requests, AsyncIterable):
            self._pulled = Pulled(aiter(requests), BATCH, self._news.set)
        elif requests is not None:
            self._source = Source(requests)
        self._is_pulling = self._pulled is not None
        self._stays_open = requests is None
        self._leaves_some = False
        self._is_cut = False
        self._requests = requests
        self._bulk = Bulk(engine, base_url, progress)
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, request: Asked) -> None:
        """Asks for one more, when its turn comes.

        It never waits: up to 1,000,000 may wait for their turn, and `room` says how many more. Who has more gives
        `fetch_many` an asynchronous iterable, which is pulled as there is room.

        >>> async with client.fetch_many(["/first"]) as outcomes:
        ...     async for outcome in outcomes:
        ...         print(outcome.request.url)
        ...         if outcome.request.url != "/next":
        ...             outcomes.submit("/next")
        /first
        /next

        Raises:
            RuntimeError: It was closed.
            QueueFull: There is no room for more. The request was not taken: none is lost in silence.
        """
        self._flow.submitted.put(request, waits=False)
        self._news.set()

    @property
    def room(self) -> int:
        """How many more may be submitted now.

        >>> client.fetch_many().room
        1000000
        """
        return self._flow.submitted.room

    def finish(self) -> None:
        """No more is submitted: it ends when all is done. Needed where `fetch_many` was called without requests.

        >>> outcomes = client.fetch_many()
        >>> outcomes.submit("/hello")
        >>> outcomes.finish()
        >>> len([outcome async for outcome in outcomes])
        1
        """
        self._stays_open = False
        self._news.set()

    @BATCHES.shown_by
    def batches(self, **options: Unpack[ResultKeywords]) -> AsyncBatchIterator:
        """The results as record batches, in place of outcomes: nothing of them becomes Python's.

        >>> batches = client.fetch_many(f"/{n}" for n in range(100)).batches(omit=["headers"])
        >>> sum([batch.num_rows async for batch in batches])
        100

        Args:
            **options: `help(headgate.AsyncFetchMany.batches)` describes each with its default.

        Returns:
            An asynchronous iterator over batches, as those of `FetchMany.batches`.

        Raises:
            UsageError: An option can't be.
            RuntimeError: As `FetchMany.batches`.
        """
        flow = self._flow
        has_begun = flow.is_closed or flow.has_begun or self._loop is not None
        batches = self._bulk.async_batches(self._requests, dict(options), has_begun=has_begun)
        self._source = self._pulled = None
        self._close()
        return batches

    async def aclose(self) -> None:
        """Cancels what is in flight. Again: nothing.

        >>> outcomes = client.fetch_many(["/hello"] * 10)
        >>> (await anext(outcomes)).unwrap().status_code
        200
        >>> await outcomes.aclose()
        """
        self._close()
        if self._pulled is not None:
            await self._pulled.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Outcome:
        """The next outcome. Cancelling this is as for an `AsyncBatchIterator`."""
        try:
            return await self._next()
        except BaseException as error:
            if ends_iteration(error):
                self._is_cut = isinstance(error, asyncio.CancelledError)
                await self.aclose()
            raise

    async def _next(self) -> Outcome:
        flow = self._flow
        if self._loop is None and not flow.is_closed:
            self._begin(asyncio.get_running_loop())
        while not flow.is_closed:
            outcome = flow.pop()
            if outcome is not None:
                return outcome
            if self._leaves_some:
                self._take_in()
                continue
            self._news.clear()
            has_more = self._submit_pulled()
            if flow.room > 0 and flow.pull(self._source):
                self._source = None
            goes_on = has_more or self._source is not None or bool(flow.submitted)
            if not (flow.outstanding or goes_on or self._stays_open or self._is_pulling):
                break
            if goes_on and flow.room > 0:
                await asyncio.sleep(0)
            else:
                await in_turns(self._wait())
            self._progress.look()
        self._end_well()
        raise StopAsyncIteration

    def _end_well(self) -> None:
        self._bulk.refuse_outcomes()
        if self._is_cut:
            raise ClosedEarly("a wait for it was cancelled: there may have been more")
        self._progress.end()
        if self._flow.failure is not None:
            raise self._flow.failure

    def _submit_pulled(self) -> bool:
        """Submits what an asynchronous source has given, if there is room. Whether it is worth asking again."""
        flow = self._flow
        if self._pulled is None or not self._is_pulling or flow.room <= 0:
            return False
        if flow.submitted:
            return True  # these are first
        asked, has_ended = self._pulled.take()
        flow.submitted.extend(asked)
        self._is_pulling = not has_ended
        if has_ended:
            flow.failure = self._pulled.failure
        return bool(asked)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Has the loop watch for answers, and run what pulls; neither keeps this alive when nobody iterates."""
        self._loop = loop
        here = weakref.ref(self)

        def take_in() -> None:
            many = here()
            if many is not None:
                many._take_in()  # noqa: SLF001 - it is one of ours

        loop.add_reader(self._flow.mailbox.fileno(), take_in)
        self._take_in()
        if self._pulled is not None:
            self._pulled.begin()

    def _take_in(self) -> None:
        flow = self._flow
        self._leaves_some = flow.is_full
        flow.take_in(*flow.mailbox.take(0 if self._leaves_some else MOST))
        self._news.set()

    async def _wait(self) -> None:
        """Waits for news. What comes next may wait for memory that outcomes of other requests of the client have."""
        began = time.monotonic()
        await self._progress.wait(self._news, LOOK_S)
        if time.monotonic() - began >= LOOK_S:
            self._flow.mailbox.give_memory_back()

    def _close(self) -> None:
        if self._flow.is_closed:
            return
        self._flow.close()
        self._progress.leave()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._flow.mailbox.fileno())
        self._news.set()
        if self._source is not None:
            self._source.close()

    def __del__(self) -> None:
        if not hasattr(self, "_loop") or self._flow.is_closed:
            return
        self._flow.close()
        self._progress.leave()
        if self._loop is not None:
            # Whatever thread collects it. The mailbox has to be there until its descriptor is not watched any more.
            soon_in(self._loop, self._end, self._loop, self._flow, self._pulled, self._source)

    @staticmethod
    def _end(loop: asyncio.AbstractEventLoop, flow: Flow, pulled: Pulled[Asked] | None, source: Source | None) -> None:
        loop.remove_reader(flow.mailbox.fileno())
        if pulled is not None:
            pulled.cancel()
        if source is not None:
            source.close()

    def __repr__(self) -> str:
        return f"<headgate.AsyncFetchMany: {self._flow.state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
