"""`amap` for code without an event loop."""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import repeat
from types import TracebackType
from typing import Annotated, Any, Final, Generic, Literal, Self, TypedDict, TypeVar, Unpack, overload

from headgate._checks import function as is_function
from headgate._errors import ClosedEarly
from headgate._option import Option, OptionSet
from headgate.portal._loop_thread import LoopFactory, LoopThread
from headgate.tasks._amap import flow_of
from headgate.tasks._call_flow import CallFlow
from headgate.tasks._options import AmapOptions, AmapOptionsButErrors
from headgate.tasks._outcome import TaskOutcome, TaskStatistics

R = TypeVar("R")
T = TypeVar("T")


class MapIterator(Generic[R]):
    """The iterator over results that `map` returns, which is also a context manager. Threads may share it.

    Its loop runs in a separate thread, so that calls make progress and timeouts hold while the caller works on a
    result. All results that are ready cross threads as one batch, because one hand-over costs as much as a dozen tasks.

    >>> with headgate.map(fetch, ["a", "bb"], limit=1) as pages:
    ...     print(list(pages), pages.statistics().succeeded)
    ['page of a', 'page of bb'] 2
    """

    __module__ = "headgate"

    def __init__(self, flow: CallFlow, loop_factory: LoopFactory | None) -> None:
        self._flow = flow
        self._loop_factory = loop_factory
        self._thread: LoopThread | None = None
        self._batch: deque[R] = deque()
        self._lock = threading.Lock()
        self._is_closed = False
        self._closed_by: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> R:
        if self._thread is not None and self._thread.is_current:
            raise RuntimeError("a call of map waits for a result of the same map, which may be its own")
        with self._lock:
            if not self._batch:
                self._batch = self._next_batch()
            try:
                return self._batch.popleft()
            except IndexError:  # another thread may have closed it meanwhile
                self._close()
        if self._closed_by not in (None, threading.get_ident()):
            raise ClosedEarly("another thread has closed it: there may have been more")
        raise StopIteration

    def stop(self) -> list[Any]:
        """Starts nothing new; calls that have started finish, and their results are delivered: see `TaskResults.stop`.

        >>> with headgate.map(fetch, ["a", "bb"], limit=1) as pages:
        ...     pages.stop()
        []
        """
        if self._thread is None or self._is_closed or self._thread.is_current:
            return self._flow.stop()
        with suppress(CancelledError, RuntimeError):  # the loop may have ended
            unstarted: list[Any] = self._thread.queue.call(self._flow.stop, (), {})
            return unstarted
        return []

    def statistics(self) -> TaskStatistics:
        """Returns the progress so far. All results of a batch count as uncollected until the last one is collected."""
        return self._flow.statistics()

    def close(self) -> None:
        """Cancels the running calls, waits until they have ended, and drops results that were not collected.

        Threads that iterate over it get `ClosedEarly`, except the one that called `close`.

        >>> pages = headgate.map(fetch, ["a", "bb"], limit=1)
        >>> pages.close()
        >>> list(pages)
        []
        """
        if not self._is_closed:
            self._closed_by = threading.get_ident()
        self._batch.clear()
        self._close()

    def __del__(self) -> None:
        self._close()

    def _close(self) -> None:
        self._is_closed = True
        if self._thread is not None:
            self._thread.close(cancel=True)

    def _next_batch(self) -> deque[R]:
        """Waits for at least one result, and returns all that are ready; none at the end. An error closes the map."""
        if self._is_closed:
            return deque()
        try:
            if self._thread is None:
                self._thread = LoopThread(self._loop_factory, "headgate-map", self._flow.close)
            batch: deque[R] = self._thread.queue.call(_fetch, (self._flow,), {})
        except BaseException as error:
            thread = self._thread
            has_ended = thread is not None and thread.queue.refusal is not None
            self._close()
            if isinstance(error, (CancelledError, ClosedEarly)) or (has_ended and isinstance(error, RuntimeError)):
                if self._closed_by is not None:  # another thread closed it
                    return deque()
                if thread is not None and thread.failure is not None:
                    raise thread.failure from None
            raise
        return batch


async def _fetch(flow: CallFlow) -> deque[Any]:
    """Waits for results, in the loop of the flow.

    Results of the previous batch count as uncollected until now, because only now has the caller collected all of them.
    A mark replaces each of them in the queue, so that only the caller refers to the result.
    """
    if not flow.is_open:
        flow.is_within_block = True
        flow.open()
    while flow.ready and flow.ready[0] is _FETCHED:
        flow.ready.popleft()
    if flow.is_stalled:
        flow.resume()
    await flow.wait_for_ready()
    batch = flow.ready.copy()
    flow.ready.clear()
    flow.ready.extend(repeat(_FETCHED, len(batch)))
    return batch


_FETCHED: Final = object()
"""Marks a result that was fetched."""


class LoopOption(TypedDict, total=False):
    """The event loop in which calls run."""

    loop_factory: Annotated[
        LoopFactory | None,
        Option(
            help="Makes the event loop, such as `uvloop.new_event_loop`.",
            default=None,
            default_means="asyncio's own",
            check=is_function,
        ),
    ]


class MapOptions(AmapOptions[T], LoopOption):
    """The options of `map`."""


class MapOptionsButErrors(AmapOptionsButErrors[T], LoopOption):
    """The options of `map` on which the type of its results does not depend."""


_OPTIONS: Final = OptionSet(MapOptions[Any], of="map")


@overload
def map(  # noqa: A001 - it is `map`
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    *,
    errors: Literal["raise", "skip"] = ...,
    **options: Unpack[MapOptionsButErrors[T]],
) -> MapIterator[R]: ...


@overload
def map(  # noqa: A001 - it is `map`
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    *,
    errors: Literal["yield"],
    **options: Unpack[MapOptionsButErrors[T]],
) -> MapIterator[TaskOutcome[T, R]]: ...


@_OPTIONS.shown_by
def map(  # noqa: A001 - it is `map`
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    **options: Unpack[MapOptions[T]],
) -> MapIterator[Any]:
    """`amap` for code without an event loop: an iterator over the results, which blocks until there is one.

        for page in headgate.map(fetch, urls, limit=100):
            print(page)

    The function, and a source that is not a list, run in a separate thread with its own event loop, which continues
    while the caller works on a result. Leaving the loop cancels the running calls and waits until they have ended;
    `with headgate.map(...) as results` makes that certain. Ctrl-C and the end of the program do the same. Calls see the
    context variables of the thread that requests the first result.

    It also raises the errors of `amap`.

    Args:
        function: An `async def` function, or any function that returns an awaitable.
        items: What to call it with: an iterable or async iterable, which is closed at the end.
        **options: `limit` is required; `help(headgate.map)` describes each with its default.

    Raises:
        RuntimeError: This thread runs an event loop, which `map` would block: use `amap`.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("map would block the event loop that runs in this thread: use amap")
    complete = _OPTIONS.read(options)
    return MapIterator(flow_of(function, items, complete), complete["loop_factory"])
