"""Many requests of a coroutine."""

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from headgate.client._engine import Engine
from headgate.client._flow import BATCH, Flow
from headgate.client._outcome import Outcome
from headgate.client._request import Asked

MOST: Final = 1024
"""Outcomes that are taken in one turn of the loop."""


class AsyncFetchMany(AsyncIterator[Outcome]):
    """Outcomes of many requests, as `AsyncClient.fetch_many` gives them.

    One task iterates; others of its loop may submit.
    """

    def __init__(
        self,
        engine: Engine,
        base_url: str,
        requests: Iterable[Asked] | AsyncIterable[Asked] | None,
        *,
        ordered: bool,
    ) -> None:
        self._flow = Flow(engine, base_url, watched=True, ordered=ordered)
        self._source: Iterator[Asked] | None = None
        self._async_source: AsyncIterator[Asked] | None = None
        if isinstance(requests, AsyncIterable):
            self._async_source = aiter(requests)
        elif requests is not None:
            self._source = iter(requests)
        self._stays_open = requests is None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()
        self._has_pulled = asyncio.Event()
        self._pulling: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

    def submit(self, request: Asked) -> None:
        """Asks for one more.

        Raises:
            RuntimeError: It was closed.
        """
        if self._flow.is_closed:
            raise RuntimeError("these requests are closed: no more can be submitted")
        self._flow.submitted.append(request)
        self._news.set()

    def finish(self) -> None:
        """No more is submitted: it ends when all is done. Needed where `fetch_many` was called without requests."""
        self._stays_open = False
        self._news.set()

    async def aclose(self) -> None:
        """Cancels what is in flight. Again: nothing."""
        pulling = self._pulling
        self._close()
        if pulling is not None:
            await asyncio.gather(pulling, return_exceptions=True)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Outcome:
        try:
            return await self._next()
        except BaseException:
            await self.aclose()
            raise

    async def _next(self) -> Outcome:
        flow = self._flow
        if self._loop is None and not flow.is_closed:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(flow.mailbox.fileno(), self._take_in)
            self._take_in()
        if self._async_source is not None and self._pulling is None:
            self._pulling = asyncio.create_task(self._pull_all(self._async_source))
        while not flow.is_closed:
            outcome = flow.pop()
            if outcome is not None:
                return outcome
            if self._failure is not None:
                raise self._failure
            self._news.clear()
            if flow.room > 0 and flow.pull(self._source):
                self._source = None
            if len(flow.submitted) < BATCH:
                self._has_pulled.set()
            goes_on = self._source is not None or bool(flow.submitted)
            if not (flow.outstanding or goes_on or self._stays_open or self._async_source is not None):
                break
            if goes_on and flow.room > 0:
                await asyncio.sleep(0)
            else:
                await self._news.wait()
        raise StopAsyncIteration

    async def _pull_all(self, source: AsyncIterator[Asked]) -> None:
        """Submits what an asynchronous source gives, as there is room for it."""
        try:
            async for asked in source:
                self._flow.submitted.append(asked)
                self._news.set()
                if len(self._flow.submitted) >= BATCH:
                    self._has_pulled.clear()
                    await self._has_pulled.wait()
        except Exception as error:  # noqa: BLE001 - it is raised where outcomes are taken
            self._failure = error
        self._async_source = None
        self._news.set()

    def _take_in(self) -> None:
        self._flow.take_in(self._flow.mailbox.take(MOST))
        self._news.set()

    def _close(self) -> None:
        if self._flow.is_closed:
            return
        if self._pulling is not None:
            self._pulling.cancel()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(self._flow.mailbox.fileno())
        self._flow.close()
        self._news.set()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
