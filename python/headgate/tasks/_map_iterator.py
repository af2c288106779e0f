"""The sync face of `amap`, for code that has no event loop: a loop of its own, on a thread of its own.

A thread, so that calls make progress and time limits hold while the caller works on a result. Results cross over in
batches, all that is ready at once, because one crossing costs as much as a dozen tasks.
"""

import asyncio
import atexit
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import repeat
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from headgate._errors import ClosedEarly
from headgate.tasks._call_flow import CallFlow
from headgate.tasks._outcome import TaskStatistics

R = TypeVar("R")
T = TypeVar("T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class MapIterator(Generic[R]):
    """What `map` gives: an iterator over the results, and a block around it. Threads may share it.

    >>> with headgate.map(fetch, ["a", "bb"], limit=1) as pages:
    ...     print(list(pages), pages.statistics().succeeded)
    ['page of a', 'page of bb'] 2
    """

    def __init__(self, flow: CallFlow, loop_factory: LoopFactory | None) -> None:
        self._worker = _Worker(flow, loop_factory)
        self._batch: deque[R] = deque()
        self._lock = threading.Lock()
        self._cut_by: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        if threading.get_ident() == self._worker.thread_id:
            raise RuntimeError("a call of map waits for a result of the same map, which may be its own")
        with self._lock:  # several threads may share it
            if not self._batch:
                self._batch = self._next_batch()
            try:
                return self._batch.popleft()
            except IndexError:  # it may have been closed this very moment
                self._worker.close()
        if self._cut_by not in (None, threading.get_ident()):
            raise ClosedEarly("another thread has closed it: there may have been more")
        raise StopIteration

    def _next_batch(self) -> deque[R]:
        try:
            return self._worker.next_batch()
        except CancelledError:
            if self._cut_by is None:
                raise
            return deque()

    def stop(self) -> list[Any]:
        """Starts nothing new; what has begun is finished and delivered, as `TaskResults.stop` does.

        >>> with headgate.map(fetch, ["a", "bb"], limit=1) as pages:
        ...     pages.stop()
        []
        """
        return self._worker.stop()

    def statistics(self) -> TaskStatistics:
        """How far it is. Results are fetched in batches; each of a batch counts as uncollected until all are taken."""
        return self._worker.flow.statistics()

    def close(self) -> None:
        """Cancels what runs and waits until it has ended; what was not collected is dropped.

        Other threads that iterate it are told, by `ClosedEarly`.

        >>> pages = headgate.map(fetch, ["a", "bb"], limit=1)
        >>> pages.close()
        >>> list(pages)
        []
        """
        if not self._worker.is_closed:
            self._cut_by = threading.get_ident()
        self._batch.clear()
        self._worker.close()

    def __del__(self) -> None:
        self._worker.close()


class _Worker:
    """A thread with an event loop, in which one flow runs. It begins with the first batch that is asked for.

    One task lives there and answers what is asked, one batch after another; when it ends, so do the loop and the
    thread. They may also end by themselves, by a `SystemExit` of the user's function: then what is asked and was not
    answered is cancelled.
    """

    def __init__(self, flow: CallFlow, loop_factory: LoopFactory | None) -> None:
        self.flow = flow
        self._loop_factory = loop_factory
        self.thread_id: int | None = None
        self._thread: threading.Thread | None = None
        self._wanted: asyncio.Queue[Future[deque[Any]]]  # of one, because who asks waits
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: asyncio.Task[None] | None = None
        self._asked: set[Future[Any]] = set()
        self._fetched = 0
        self._fatal: BaseException | None = None
        self._has_ended = False
        self.is_closed = False

    def next_batch(self) -> deque[Any]:
        """All that is ready, at least one result; none when there is no more. Blocks. An error closes it."""
        if self.is_closed:
            return deque()
        try:
            return self._ask(self._loop or self._begin(), self._want)
        except BaseException as error:
            self.close()
            if self._fatal is not None and isinstance(error, CancelledError):
                raise self._fatal from None
            raise

    def stop(self) -> list[Any]:
        """`CallFlow.stop`, on the loop's thread."""
        if self._loop is None or self.is_closed or threading.current_thread() is self._thread:
            return self.flow.stop()
        with suppress(CancelledError):  # the loop has ended by itself
            return self._ask(self._loop, lambda asked: asked.set_result(self.flow.stop()))
        return []

    def close(self) -> None:
        """Ends the loop and its thread."""
        if self.is_closed:
            return
        self.is_closed = True
        _begun.discard(self)
        if self._loop is not None and self._life is not None:
            with suppress(RuntimeError):  # the loop has ended by itself
                self._loop.call_soon_threadsafe(self._life.cancel)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _begin(self) -> asyncio.AbstractEventLoop:
        begun: Future[asyncio.AbstractEventLoop] = Future()
        # The loop takes its context from there: calls see the variables of whoever asked for the first result.
        run = partial(copy_context().run, self._run, begun)
        self._thread = threading.Thread(target=run, name="headgate-map", daemon=True)
        _begun.add(self)
        self._thread.start()
        return begun.result()

    def _ask(self, loop: asyncio.AbstractEventLoop, answer: "Callable[[Future[T]], None]") -> T:
        """Has a function called in the loop, and waits for what it gives, then or later.

        Raises:
            CancelledError: The loop has ended without it.
        """
        asked: Future[T] = Future()
        self._asked.add(asked)
        try:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(answer, asked)
            if self._has_ended:
                asked.cancel()
            return asked.result()
        finally:
            self._asked.discard(asked)
            del asked  # else its error, whose traceback has this frame, would be a cycle

    # -- on the loop's thread

    def _run(self, begun: "Future[asyncio.AbstractEventLoop]") -> None:
        try:
            with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                runner.run(self._live(begun))
        except asyncio.CancelledError as error:
            if not self.is_closed:  # by a call
                self._fatal = error
        except BaseException as error:  # noqa: BLE001 - raised where somebody waits for a result
            self._fatal = error
            if not begun.done():
                begun.set_exception(error)
        finally:
            self._has_ended = True
            for asked in tuple(self._asked):
                asked.cancel()

    async def _live(self, begun: "Future[asyncio.AbstractEventLoop]") -> None:
        self._life = asyncio.current_task()
        self._wanted = asyncio.Queue()
        self.thread_id = threading.get_ident()
        self._loop = asyncio.get_running_loop()
        begun.set_result(self._loop)
        try:
            while not self.is_closed:
                asked = await self._wanted.get()
                try:
                    asked.set_result(await self._fetch())
                except Exception as error:  # noqa: BLE001 - raised where somebody waits for a result
                    asked.set_exception(error)
                finally:
                    del asked  # else its error, whose traceback has this frame, would be a cycle
        finally:
            await self.flow.close()

    def _want(self, asked: "Future[deque[Any]]") -> None:
        self._wanted.put_nowait(asked)

    async def _fetch(self) -> deque[Any]:
        flow = self.flow
        if not flow.is_open:
            flow.is_within_block = True
            flow.open()
        # What was fetched counts as uncollected until more is asked for: only then has the caller taken all of it. What
        # counts is its number; the results are the caller's alone.
        for _ in range(self._fetched):
            flow.ready.popleft()
        self._fetched = 0
        if flow.is_stalled:
            flow.resume()
        await flow.wait_for_ready()
        batch = flow.ready.copy()
        self._fetched = len(batch)
        flow.ready.clear()
        flow.ready.extend(repeat(None, self._fetched))
        return batch


_begun: set[_Worker] = set()


@atexit.register
def _close_all() -> None:
    """Ends what nobody has ended, while there is still an interpreter in which it can clean up."""
    for worker in tuple(_begun):
        worker.close()
