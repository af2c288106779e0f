"""The sync face of `amap`, for code that has no event loop: a loop of its own, on a thread of its own.

A thread, so that calls make progress and time limits hold while the caller works on a result. Results cross over in
batches, all that is ready at once, because one crossing costs as much as a dozen tasks.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from headgate._task_calls import CallFlow
from headgate._task_flow import NO_MORE
from headgate._task_outcome import TaskStatistics

R = TypeVar("R")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class MapIterator(Generic[R]):
    """What `map` gives: an iterator over the results, and a block around it.

    When it is let go of, what it began is cancelled; so nothing that it began may refer to it.
    """

    def __init__(self, flow: CallFlow, loop_factory: LoopFactory | None) -> None:
        self._worker = _Worker(flow, loop_factory)
        self._batch: deque[R] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        if not self._batch:
            try:
                self._batch = self._worker.next_batch()
            except BaseException:
                self.close()
                raise
            if not self._batch:
                self.close()
                raise StopIteration
        return self._batch.popleft()

    def stop(self) -> list[Any]:
        """Starts nothing new; what has begun is finished and delivered, as `TaskResults.stop` does."""
        return self._worker.stop()

    def statistics(self) -> TaskStatistics:
        """How far it is; what was fetched from the loop and not yet taken from here counts as collected."""
        return self._worker.flow.statistics()

    def close(self) -> None:
        """Cancels what runs and waits until it has ended; what was not collected is dropped."""
        self._batch.clear()
        self._worker.close()

    def __del__(self) -> None:
        self._worker.close()


class _Worker:
    """A thread with an event loop, in which one flow runs. It begins with the first batch that is asked for."""

    def __init__(self, flow: CallFlow, loop_factory: LoopFactory | None) -> None:
        self.flow = flow
        self._loop_factory = loop_factory
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._end: asyncio.Event | None = None
        self._fatal: BaseException | None = None
        self._is_closed = False

    def next_batch(self) -> deque[Any]:
        """All that is ready, at least one result; none when there is no more. Blocks."""
        if self._is_closed:
            return deque()
        loop = self._loop or self._begin()
        try:
            return asyncio.run_coroutine_threadsafe(self._fetch(), loop).result()
        except CancelledError:
            self.close()  # then it is known whether something ended the thread
            if self._fatal is not None:
                raise self._fatal from None
            raise

    def stop(self) -> list[Any]:
        """`CallFlow.stop`, on the loop's thread."""
        if self._loop is None or self._is_closed:
            return self.flow.stop()
        stopped: Future[list[Any]] = Future()
        self._loop.call_soon_threadsafe(lambda: stopped.set_result(self.flow.stop()))
        return stopped.result()

    def close(self) -> None:
        """Ends the loop and its thread."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._thread is None or self._loop is None or self._end is None:
            return
        with suppress(RuntimeError):  # the loop has ended by itself
            self._loop.call_soon_threadsafe(self._end.set)
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _begin(self) -> asyncio.AbstractEventLoop:
        begun: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, args=(begun,), name="headgate-map", daemon=True)
        self._thread.start()
        return begun.result()

    def _run(self, begun: "Future[asyncio.AbstractEventLoop]") -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._live(begun))
        except BaseException as error:  # noqa: BLE001 - raised where somebody waits for a result
            self._fatal = error
            if not begun.done():
                begun.set_exception(error)

    async def _live(self, begun: "Future[asyncio.AbstractEventLoop]") -> None:
        self._loop = asyncio.get_running_loop()
        self._end = asyncio.Event()
        begun.set_result(self._loop)
        try:
            await self._end.wait()
        finally:
            await self.flow.close()

    async def _fetch(self) -> deque[Any]:
        flow = self.flow
        if not flow.is_open:
            flow.is_within_block = True
            flow.open()
        batch: deque[Any] = deque()
        result = await flow.next()
        if result is not NO_MORE:
            batch.append(result)
            batch.extend(flow.ready)
            flow.ready.clear()
            if flow.is_stalled:
                flow.resume()
        return batch
