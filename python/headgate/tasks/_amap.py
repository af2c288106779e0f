"""Many tasks, few at once: bounded concurrency for any coroutine.

What is started is bounded, and so is what has finished and waits to be collected; the input is read as it is needed. So
memory hangs on the limit and not on the input. A semaphore does not give that: it bounds what runs, and each of a
million tasks that wait for it is there.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Final, Literal, TypeVar, Unpack, overload

from headgate._checks import check, function as is_function
from headgate._option import OptionSet
from headgate.tasks._call_flow import CallFlow
from headgate.tasks._face import Face
from headgate.tasks._options import AmapOptions, AmapOptionsButErrors, are_plain, check_pairs
from headgate.tasks._outcome import TaskOutcome, TaskStatistics
from headgate.tasks._paced_flow import PacedFlow
from headgate.tasks._source import source_of

T = TypeVar("T")
R = TypeVar("R")

_OPTIONS: Final = OptionSet(AmapOptions[Any], of="amap")


class TaskResults(Face[R]):
    """What `amap` gives: an async iterator over the results, and a block around it."""

    _flow: CallFlow

    def __init__(self, flow: CallFlow) -> None:
        self._flow = flow

    def stop(self) -> list[Any]:
        """Starts nothing new; what has begun is finished and delivered, its further attempts included.

        Returns:
            Items that were taken from the source and will not be started, in their order: those that waited for a
            limit, a rate or their key.
        """
        return self._flow.stop()

    def statistics(self) -> TaskStatistics:
        """How far it is."""
        return self._flow.statistics()


@overload
def amap(
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    *,
    errors: Literal["raise", "skip"] = ...,
    **options: Unpack[AmapOptionsButErrors[T]],
) -> TaskResults[R]: ...


@overload
def amap(
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    *,
    errors: Literal["yield"],
    **options: Unpack[AmapOptionsButErrors[T]],
) -> TaskResults[TaskOutcome[T, R]]: ...


@_OPTIONS.shown_by
def amap(
    function: Callable[[T], Awaitable[R]],
    items: Iterable[T] | AsyncIterable[T],
    **options: Unpack[AmapOptions[T]],
) -> TaskResults[Any]:
    """Calls an async function with each item, few at once, and gives the results as they come.

        async with amap(fetch, urls, limit=1000) as results:
            async for result in results:
                print(result)

    Items are read as they are needed, at most one ahead of what runs (with `key`, up to the bound below), so that they
    may be without end. A slow source does not delay results; an error of the source is raised once, after the results
    of all that was started. Each call is a task of its own, in a copy of the context in which the block began (and
    what a sync source has set there since).

    Bound: running, waiting (for a limit, a rate, a key or the next attempt) and uncollected are never more than `limit
    + buffer` together; with `ordered`, never more than `window + 1`. A loop that is slow stops the starts.

    Leaving the block cancels what runs, once, and waits until it has ended; what a call raises while it is being
    cancelled is dropped. Without a block, `async for result in amap(...)` does the same when it is cancelled or an
    error is raised by it (so that one cancelled `anext` ends it), and cancels without waiting when it is left by
    `break` or by an error in its body.

    Args:
        function: An `async def` function, or any that returns an awaitable.
        items: What to call it with; an iterable or an async iterable, which is closed at the end.
        **options: `limit` must be given; `help(headgate.amap)` describes each with its default.

    Raises:
        TypeError: An argument is not what it must be; from the iteration, `function` returned nothing that can be
            awaited.
        ValueError: A figure is too small, or an argument has no meaning without another one.
        TooManyErrors: From the iteration, by `max_errors`.
        StrayCancellation: From the iteration: a call or the source was cancelled, and this was not.
        ClosedEarly: From the iteration: another task has closed it, or a wait without a block was cancelled.
        RuntimeError: From the iteration: no event loop is running, or something raised `StopAsyncIteration`.
    """
    return TaskResults(flow_of(function, items, _OPTIONS.read(options)))


def flow_of(function: Callable[[Any], Any], items: object, options: AmapOptions[Any]) -> CallFlow:
    """What calls the function with each item."""
    check("function", function, is_function)
    check_pairs(options)
    source = source_of(items, "items")
    return (CallFlow if are_plain(options) else PacedFlow)(source, function, options)
