"""Many requests: iterators over their outcomes, for threads and for event loops."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, Unpack

from headgate._errors import ClosedEarly
from headgate.batches._batch_iterator import AsyncBatchIterator, BatchIterator, LoopIterator
from headgate.batches._shared_iterator import SharedIterator
from headgate.batches._supply import MEMORY_CHECK_S, Pulled, call_soon_in
from headgate.client._calls import BatchMode
from headgate.client._flow import BATCH, RequestFlow, RequestSource
from headgate.client._hook_calls import Calls, run, run_async
from headgate.client._open_streams import OpenStreams, WaitCheck
from headgate.client._outcome import Outcome
from headgate.client._request import Request, RequestLike
from headgate.client._table_options import BATCHES, ResultKeywords
from headgate.client._tag import Tag
from headgate.client._url import UrlObject
from headgate.jobs._notebook import await_interruptibly
from headgate.jobs._progress import Progress, ProgressTarget

if TYPE_CHECKING:
    from headgate.client._many_observer import ManyObserver

T = TypeVar("T")

MAX_WAIT_S: Final = 3600.0
"""The bound of one wait, which any event ends earlier."""
_MAX_TAKEN: Final = 1024
"""The bound of outcomes that are taken at once."""


class _FetchManyBase:
    """The base of both iterators."""

    _is_in_loop: ClassVar[bool]

    def __init__(
        self,
        streams: OpenStreams,
        requests: object,
        *,
        ordered: bool,
        progress: ProgressTarget,
    ) -> None:
        engine = streams.engine
        self._progress = Progress(progress, engine.statistics)
        self._flow = RequestFlow(engine, watched=self._is_in_loop, ordered=ordered)
        self._wait_check = WaitCheck(streams, "task" if self._is_in_loop else "thread")
        self._batch_mode = BatchMode(engine, self._wait_check, progress)
        self._stays_open = requests is None

    @property
    def room(self) -> int:
        """The number of requests that can be submitted now without waiting.

        >>> client.fetch_many().room
        1000000
        """
        return self._flow.submitted.free_slots

    def __repr__(self) -> str:
        return f"<headgate.{type(self).__name__}: {self._flow.state}>"


class _Taker(threading.local):
    """Whether this thread takes outcomes."""

    is_this = False


class FetchMany(_FetchManyBase, SharedIterator[Outcome[Tag]]):
    """An iterator over outcomes of many requests, from `Client.fetch_many`. Any threads may iterate and submit.

    Each outcome goes to one thread. An error of the source is raised in one thread. Then, at the end and after `close`,
    the iteration ends in the others, too.

    >>> with client.fetch_many(["/hello", "/status/404"], ordered=True) as outcomes:
    ...     print([outcome.unwrap().status_code for outcome in outcomes])
    [200, 404]
    """

    __module__ = "headgate"

    _is_in_loop = False

    def __init__(
        self,
        streams: OpenStreams,
        requests: Iterable[RequestLike] | None,
        *,
        ordered: bool,
        progress: ProgressTarget = False,
    ) -> None:
        self._source = None if requests is None else RequestSource(requests)
        _FetchManyBase.__init__(self, streams, requests, ordered=ordered, progress=progress)
        self._taker = _Taker()
        self._created_by: int | None = threading.get_ident()
        """The thread that created it, until a thread takes outcomes."""
        SharedIterator.__init__(self)

    def submit(self, request: str | UrlObject | Request[Tag] | Mapping[str, Any]) -> None:
        """Queues one more request.

        A thread that takes outcomes, as a crawler does, never waits here: the queue holds 1,000,000 requests, and
        `room` is how many more it can hold. Another thread waits here while 10,000 are queued; `close` ends that wait.

        >>> with client.fetch_many(["/redirect/1"]) as outcomes:
        ...     for outcome in outcomes:
        ...         print(outcome.unwrap().status_code)
        ...         if outcome.request.url != "/next":
        ...             outcomes.submit("/next")
        200
        200

        Raises:
            RuntimeError: The iterator was closed.
            QueueFull: The queue is full, and this thread can't wait. The request was not accepted.
        """
        is_taker = self._taker.is_this or self._created_by == threading.get_ident()
        self._flow.submitted.put(request, may_wait=not is_taker)
        self._flow.completions.wake()

    def finish(self) -> None:
        """Ends the submission of requests: the iteration ends after the last outcome.

        It is needed if `fetch_many` was called without requests.

        >>> outcomes = client.fetch_many()
        >>> outcomes.submit("/hello")
        >>> outcomes.finish()
        >>> len(list(outcomes))
        1
        """
        self._stays_open = False
        self._flow.completions.wake()

    @BATCHES.shown_by
    def to_arrow_batches(self, **options: Unpack[ResultKeywords]) -> BatchIterator:
        """Returns the results as record batches in place of outcomes, without a Python object for each.

        >>> batches = client.fetch_many(f"/{n}" for n in range(100)).to_arrow_batches(drop=["headers"])
        >>> pyarrow.table(batches).num_rows
        100

        Args:
            **options: `help(headgate.FetchMany.to_arrow_batches)` describes each with its default.

        Returns:
            An iterator over batches, which is also a stream of them (`__arrow_c_stream__`). They have the columns of
            the results of `headgate.fetch`; `row` is the position of the request. If the first request has a
            tag, tags are the column `tag`. Leaving its `with` block cancels what is in flight.

        Raises:
            UsageError: An option has an invalid value.
            TypeError: While iterating: the first tag is no int, float, bool, str or bytes.
            RuntimeError: Outcomes were taken, requests were submitted, it is closed, or it was created without
                requests.
        """
        flow = self._flow
        has_begun = flow.is_closed or flow.has_begun
        batches = self._batch_mode.to_arrow_batches(self._source, dict(options), has_begun=has_begun)
        self._source = None
        self.close()
        return batches

    def close(self) -> None:
        """Cancels what is in flight, and ends the iteration in all threads. Idempotent.

        If another thread reads the source now, that thread closes the source afterwards.

        >>> outcomes = client.fetch_many(["/hello"] * 10)
        >>> next(outcomes).unwrap().status_code
        200
        >>> outcomes.close()
        >>> list(outcomes)
        []
        """
        super().close()

    def __next__(self) -> Outcome[Tag]:
        self._taker.is_this = True
        flow = self._flow
        outcome = None if flow.is_closed else flow.pop()
        outcome = super().__next__() if outcome is None else outcome
        if flow.observer is not None:
            try:
                outcome = run(flow.observer.outcome(outcome))
            except BaseException:
                self.close()
                raise
        return outcome

    def _pop(self) -> Outcome[Tag] | None:
        return self._flow.pop()

    def _has_ready(self) -> bool:
        return self._flow.has_ready

    def _advance(self) -> Outcome[Tag] | None:
        flow, self._created_by = self._flow, None
        # Read before the submitted requests, because a thread submits first and then finishes.
        stays_open = self._stays_open
        if flow.free_slots > 0 and flow.pull(self._source):
            self._source = None
        has_more = self._source is not None or bool(flow.submitted)
        if not (flow.outstanding or has_more or stays_open):
            self._progress.end()
            if flow.failure is not None:
                raise flow.failure
            raise StopIteration
        may_start_more = has_more and flow.free_slots > 0
        wait_s = 0.0 if may_start_more else self._wait_check.max_wait_s(min(MAX_WAIT_S, self._progress.due_in_s))
        arrived = flow.completions.wait_outcomes(_MAX_TAKEN, wait_s)
        if flow.observer is not None:
            # Before other threads get the outcomes.
            flow.observer.take_attempts(flow.completions)
            run(flow.observer.attempts())
        flow.take_arrived(*arrived)
        self._progress.update_if_due()
        self._wait_check.check(may_start_more or bool(arrived[0]) or not flow.outstanding, flow.oldest)
        return flow.pop()

    def _cancel(self) -> None:
        self._flow.cancel()

    def _release(self) -> None:
        source, self._source = self._source, None
        self._flow.close()
        self._progress.close()
        if source is not None:
            source.cancel()

    def _end(self) -> Exception:
        self._batch_mode.check_outcomes()
        return super()._end()


class AsyncFetchMany(_FetchManyBase, LoopIterator[Outcome[Tag]]):
    """An async iterator over outcomes of many requests, from `AsyncClient.fetch_many`.

    Any tasks of its loop may iterate and submit. Each outcome goes to one task. An error of the source is raised in one
    task. Then, at the end and after `aclose`, the iteration ends in the others, too.

    >>> async with client.fetch_many(["/hello", "/status/404"], ordered=True) as outcomes:
    ...     print([outcome.unwrap().status_code async for outcome in outcomes])
    [200, 404]
    """

    __module__ = "headgate"

    _is_in_loop = True

    def __init__(
        self,
        streams: OpenStreams,
        requests: Iterable[RequestLike] | AsyncIterable[RequestLike] | None,
        *,
        ordered: bool,
        progress: ProgressTarget = False,
    ) -> None:
        LoopIterator.__init__(self)
        _FetchManyBase.__init__(self, streams, requests, ordered=ordered, progress=progress)
        self._source: RequestSource | None = None
        self._pulled: Pulled[RequestLike] | None = None
        if isinstance(requests, AsyncIterable):
            self._pulled = Pulled(aiter(requests), BATCH, self._news.set)
        elif requests is not None:
            self._source = RequestSource(requests)
        self._is_pulling = self._pulled is not None
        self._must_take_more = False
        self._requests = requests
        # Calls of hooks whose wait was cancelled. The next wait returns their outcome, if they have one.
        self._unfinished: deque[asyncio.Task[Any]] = deque()

    def submit(self, request: str | UrlObject | Request[Tag] | Mapping[str, Any]) -> None:
        """Queues one more request.

        It never waits: the queue holds 1,000,000 requests, and `room` is how many more it can hold. For more, give
        `fetch_many` an asynchronous iterable, from which requests are pulled as they are needed.

        >>> async with client.fetch_many(["/first"]) as outcomes:
        ...     async for outcome in outcomes:
        ...         print(outcome.request.url)
        ...         if outcome.request.url != "/next":
        ...             outcomes.submit("/next")
        /first
        /next

        Raises:
            RuntimeError: The iterator was closed.
            QueueFull: The queue is full. The request was not accepted.
        """
        self._flow.submitted.put(request, may_wait=False)
        self._news.set()

    def finish(self) -> None:
        """Ends the submission of requests: the iteration ends after the last outcome.

        It is needed if `fetch_many` was called without requests.

        >>> outcomes = client.fetch_many()
        >>> outcomes.submit("/hello")
        >>> outcomes.finish()
        >>> len([outcome async for outcome in outcomes])
        1
        """
        self._stays_open = False
        self._news.set()

    @BATCHES.shown_by
    def to_arrow_batches(self, **options: Unpack[ResultKeywords]) -> AsyncBatchIterator:
        """Returns the results as record batches in place of outcomes, without a Python object for each.

        >>> batches = client.fetch_many(f"/{n}" for n in range(100)).to_arrow_batches(drop=["headers"])
        >>> sum([batch.num_rows async for batch in batches])
        100

        Args:
            **options: `help(headgate.AsyncFetchMany.to_arrow_batches)` describes each with its default.

        Returns:
            An asynchronous iterator over batches like those of `FetchMany.to_arrow_batches`.

        Raises:
            UsageError: An option has an invalid value.
            RuntimeError: As `FetchMany.to_arrow_batches`.
        """
        flow = self._flow
        has_begun = flow.is_closed or flow.has_begun or self._loop is not None
        batches = self._batch_mode.to_async_arrow_batches(self._requests, dict(options), has_begun=has_begun)
        self._source = self._pulled = None
        self._close()
        return batches

    async def aclose(self) -> None:
        """Cancels what is in flight, and ends the iteration. Idempotent.

        >>> outcomes = client.fetch_many(["/hello"] * 10)
        >>> (await anext(outcomes)).unwrap().status_code
        200
        >>> await outcomes.aclose()
        """
        self._close()
        if self._pulled is not None:
            await self._pulled.aclose()

    async def _next(self) -> Outcome[Tag] | None:
        flow = self._flow
        if self._loop is None and not flow.is_closed:
            self._begin()
        while not flow.is_closed:
            outcome = flow.pop() if flow.observer is None else await self._observed(flow.observer)
            if outcome is not None:
                return outcome
            self._check_loop()
            if self._must_take_more:
                self._on_readable()
                continue
            self._news.clear()
            has_pulled = self._submit_pulled()
            if flow.free_slots > 0 and flow.pull(self._source):
                self._source = None
            has_more = has_pulled or self._source is not None or bool(flow.submitted)
            if not (flow.outstanding or has_more or self._stays_open or self._is_pulling):
                break
            if has_more and flow.free_slots > 0:
                await asyncio.sleep(0)
            else:
                wait = self._wait(self._progress, MEMORY_CHECK_S, flow.completions.release_memory)
                self._wait_check.check(await await_interruptibly(wait) or not flow.outstanding, flow.oldest)
            self._progress.update_if_due()
        self._finish()
        return None

    async def _observed(self, observer: "ManyObserver") -> Outcome[Tag] | None:
        """Returns an outcome that has arrived, if there is one, after its hooks were called."""
        while self._unfinished:
            outcome: Outcome[Tag] | None = await self._finished(self._unfinished.popleft())
            if outcome is not None:
                return outcome
        await self._run(observer.attempts())
        outcome = self._flow.pop()
        return None if outcome is None else await self._run(observer.outcome(outcome))

    async def _run(self, calls: Calls[T]) -> T:
        """Makes calls of hooks. Those that are asynchronous finish if the wait for them is cancelled."""
        try:
            while not isinstance(returned := next(calls), Awaitable):
                pass
        except StopIteration as end:
            result: T = end.value
            return result
        return await self._finished(asyncio.get_running_loop().create_task(run_async(calls, returned)))

    async def _finished(self, reporting: "asyncio.Task[T]") -> T:
        try:
            return await asyncio.shield(reporting)
        except asyncio.CancelledError:
            if not reporting.cancelled():
                self._unfinished.append(reporting)
            raise

    def _finish(self) -> None:
        self._batch_mode.check_outcomes()
        if self._was_cancelled:
            raise ClosedEarly("a wait for it was cancelled: there may have been more")
        self._progress.end()
        if self._flow.failure is not None:
            raise self._flow.failure

    def _submit_pulled(self) -> bool:
        """Submits requests that were pulled, if there are free slots. Returns whether there may be more."""
        flow = self._flow
        if self._pulled is None or not self._is_pulling or flow.free_slots <= 0:
            return False
        if flow.submitted:
            return True  # they are older
        requests, has_ended = self._pulled.take()
        flow.submitted.extend(requests)
        self._is_pulling = not has_ended
        if has_ended:
            flow.failure = self._pulled.failure
        return bool(requests)

    def _begin(self) -> None:
        self._watch(self._flow.completions.fileno())
        self._on_readable()
        if self._pulled is not None:
            self._pulled.begin()

    def _on_readable(self) -> None:
        flow = self._flow
        self._must_take_more = flow.is_full
        flow.take_arrived(*flow.completions.try_outcomes(0 if self._must_take_more else _MAX_TAKEN))
        if flow.observer is not None:
            flow.observer.take_attempts(flow.completions)
        self._news.set()

    def _close(self) -> None:
        if self._flow.is_closed:
            return
        self._flow.close()
        self._progress.close()
        for reporting in self._unfinished:
            reporting.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._flow.completions.fileno())
        self._news.set()
        if self._source is not None:
            self._source.cancel()

    def __del__(self) -> None:
        if not hasattr(self, "_loop") or self._flow.is_closed:
            return
        self._flow.close()
        self._progress.close()
        if self._loop is not None:
            # It may be collected in any thread. The descriptor must stay open until the loop no longer watches it.
            call_soon_in(self._loop, self._end, self._loop, self._flow, self._pulled, self._source)

    @staticmethod
    def _end(
        loop: asyncio.AbstractEventLoop,
        flow: RequestFlow,
        pulled: Pulled[RequestLike] | None,
        source: RequestSource | None,
    ) -> None:
        loop.remove_reader(flow.completions.fileno())
        if pulled is not None:
            pulled.cancel()
        if source is not None:
            source.cancel()
