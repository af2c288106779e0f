"""Many requests: iterators over their outcomes, for threads and for event loops."""

import asyncio
from collections.abc import AsyncIterable, Iterable, Iterator
from threading import get_ident
from types import TracebackType
from typing import ClassVar, Final, Self, Unpack

from headgate._errors import ClosedEarly
from headgate.batches._batch_iterator import AsyncBatchIterator, BatchIterator, LoopIterator
from headgate.batches._supply import LOOK_S, Pulled, soon_in
from headgate.client._calls import Bulk
from headgate.client._engine import Engine
from headgate.client._flow import BATCH, Flow, Source
from headgate.client._request import Asked
from headgate.client._response import Outcome
from headgate.client._table_options import BATCHES, ResultKeywords
from headgate.jobs._notebook import in_turns
from headgate.jobs._progress import Progress, Told

LONGEST_WAIT_S: Final = 3600.0
"""Whatever happens wakes the thread before."""
_MOST_TAKEN: Final = 1024
"""Outcomes that are taken at once."""


class _Many:
    """What both iterators have: the requests in flight, and those that wait."""

    _is_in_loop: ClassVar[bool]

    def __init__(
        self,
        engine: Engine,
        base_url: str,
        requests: object,
        *,
        ordered: bool,
        progress: Told,
    ) -> None:
        self._progress = Progress(progress, engine.statistics)
        self._flow = Flow(engine, base_url, watched=self._is_in_loop, ordered=ordered)
        self._bulk = Bulk(engine, base_url, progress)
        self._stays_open = requests is None

    @property
    def room(self) -> int:
        """How many more requests may be submitted now without waiting.

        >>> client.fetch_many().room
        1000000
        """
        return self._flow.submitted.room

    def __repr__(self) -> str:
        return f"<headgate.{type(self).__name__}: {self._flow.state}>"


class FetchMany(_Many, Iterator[Outcome]):
    """Outcomes of many requests, as `Client.fetch_many` gives them. One thread iterates; any may submit.

    >>> with client.fetch_many(["/hello", "/status/404"], ordered=True) as outcomes:
    ...     print([outcome.unwrap().status_code for outcome in outcomes])
    [200, 404]
    """

    _is_in_loop = False

    def __init__(
        self,
        engine: Engine,
        base_url: str,
        requests: Iterable[Asked] | None,
        *,
        ordered: bool,
        progress: Told = False,
    ) -> None:
        self._source = None if requests is None else Source(requests)
        super().__init__(engine, base_url, requests, ordered=ordered, progress=progress)
        # The thread that made it, until one takes outcomes.
        self._taken_by = get_ident()

    def submit(self, request: Asked) -> None:
        """Asks for one more, when its turn comes.

        The thread that takes outcomes, as a crawler does, never waits here: 1,000,000 may wait for their turn, and
        `room` says how many more. Another thread waits here while 10,000 do.

        >>> with client.fetch_many(["/redirect/1"]) as outcomes:
        ...     for outcome in outcomes:
        ...         print(outcome.unwrap().status_code)
        ...         if outcome.request.url != "/next":
        ...             outcomes.submit("/next")
        200
        200

        Raises:
            RuntimeError: It was closed.
            QueueFull: There is no room for more without waiting. The request was not taken: none is lost in silence.
        """
        self._flow.submitted.put(request, waits=self._taken_by != get_ident())
        self._flow.mailbox.wake()

    def finish(self) -> None:
        """No more is submitted: it ends when all is done. Needed where `fetch_many` was called without requests.

        >>> outcomes = client.fetch_many()
        >>> outcomes.submit("/hello")
        >>> outcomes.finish()
        >>> len(list(outcomes))
        1
        """
        self._stays_open = False
        self._flow.mailbox.wake()

    @BATCHES.shown_by
    def batches(self, **options: Unpack[ResultKeywords]) -> BatchIterator:
        """The results as record batches, in place of outcomes: nothing of them becomes Python's.

        >>> batches = client.fetch_many(f"/{n}" for n in range(100)).batches(omit=["headers"])
        >>> pyarrow.table(batches).num_rows
        100

        Args:
            **options: `help(headgate.FetchMany.batches)` describes each with its default.

        Returns:
            An iterator over batches, which is a stream of them, too (`__arrow_c_stream__`). They have the columns of
            the results of `headgate.fetch`; `row` is the position of the request. Leaving its `with` block cancels
            what is in flight.

        Raises:
            UsageError: An option can't be.
            RuntimeError: Outcomes were taken, or requests submitted; it is closed; or it was made without requests.
        """
        flow = self._flow
        has_begun = flow.is_closed or flow.has_begun
        batches = self._bulk.batches(self._source, dict(options), has_begun=has_begun)
        self._source = None
        self._flow.close()
        return batches

    def close(self) -> None:
        """Cancels what is in flight. Again: nothing.

        >>> outcomes = client.fetch_many(["/hello"] * 10)
        >>> next(outcomes).unwrap().status_code
        200
        >>> outcomes.close()
        >>> list(outcomes)
        []
        """
        source, self._source = self._source, None
        self._flow.close()
        self._progress.leave()
        if source is not None:
            source.cancel()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Outcome:
        self._taken_by = get_ident()
        try:
            return self._next()
        except BaseException:
            self.close()
            raise

    def _next(self) -> Outcome:
        flow = self._flow
        while not flow.is_closed:
            outcome = flow.pop()
            if outcome is not None:
                return outcome
            # Before what was submitted: a thread submits and finishes in this order.
            stays_open = self._stays_open
            if flow.room > 0 and flow.pull(self._source):
                self._source = None
            goes_on = self._source is not None or bool(flow.submitted)
            if not (flow.outstanding or goes_on or stays_open):
                break
            wait_s = 0.0 if goes_on and flow.room > 0 else min(LONGEST_WAIT_S, self._progress.due_in_s)
            flow.take_in(*flow.mailbox.wait(_MOST_TAKEN, wait_s))
            self._progress.look()
        self._bulk.refuse_outcomes()
        self._progress.end()
        if flow.failure is not None:
            raise flow.failure
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_flow"):
            self.close()


"""Outcomes that are taken in one turn of the loop."""


class AsyncFetchMany(_Many, LoopIterator[Outcome]):
    """Outcomes of many requests, as `AsyncClient.fetch_many` gives them.

    One task iterates; others of its loop may submit.

    >>> async with client.fetch_many(["/hello", "/status/404"], ordered=True) as outcomes:
    ...     print([outcome.unwrap().status_code async for outcome in outcomes])
    [200, 404]
    """

    _is_in_loop = True

    def __init__(
        self,
        engine: Engine,
        base_url: str,
        requests: Iterable[Asked] | AsyncIterable[Asked] | None,
        *,
        ordered: bool,
        progress: Told = False,
    ) -> None:
        LoopIterator.__init__(self)
        _Many.__init__(self, engine, base_url, requests, ordered=ordered, progress=progress)
        self._source: Source | None = None
        self._pulled: Pulled[Asked] | None = None
        if isinstance(requests, AsyncIterable):
            self._pulled = Pulled(aiter(requests), BATCH, self._news.set)
        elif requests is not None:
            self._source = Source(requests)
        self._is_pulling = self._pulled is not None
        self._leaves_some = False
        self._requests = requests

    def submit(self, request: Asked) -> None:
        """Asks for one more, when its turn comes.

        It never waits: up to 1,000,000 may wait for their turn, and `room` says how many more. For more, give
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

    async def _next(self) -> Outcome | None:
        flow = self._flow
        if self._loop is None and not flow.is_closed:
            self._begin()
        while not flow.is_closed:
            outcome = flow.pop()
            if outcome is not None:
                return outcome
            if self._leaves_some:
                self._on_readable()
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
                await in_turns(self._wait(self._progress, LOOK_S, flow.mailbox.release_memory))
            self._progress.look()
        self._end_well()
        return None

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

    def _begin(self) -> None:
        self._watch(self._flow.mailbox.fileno())
        self._on_readable()
        if self._pulled is not None:
            self._pulled.begin()

    def _on_readable(self) -> None:
        flow = self._flow
        self._leaves_some = flow.is_full
        flow.take_in(*flow.mailbox.take(0 if self._leaves_some else _MOST_TAKEN))
        self._news.set()

    def _close(self) -> None:
        if self._flow.is_closed:
            return
        self._flow.close()
        self._progress.leave()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._flow.mailbox.fileno())
        self._news.set()
        if self._source is not None:
            self._source.cancel()

    def __del__(self) -> None:
        if not hasattr(self, "_loop") or self._flow.is_closed:
            return
        self._flow.close()
        self._progress.leave()
        if self._loop is not None:
            # It may be collected in any thread. The mailbox has to be there until its descriptor is not watched any
            # more.
            soon_in(self._loop, self._end, self._loop, self._flow, self._pulled, self._source)

    @staticmethod
    def _end(loop: asyncio.AbstractEventLoop, flow: Flow, pulled: Pulled[Asked] | None, source: Source | None) -> None:
        loop.remove_reader(flow.mailbox.fileno())
        if pulled is not None:
            pulled.cancel()
        if source is not None:
            source.cancel()
