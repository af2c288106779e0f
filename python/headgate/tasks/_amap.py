"""Many tasks, a few at a time: bounded concurrency for any coroutine.

Both the running tasks and the results that wait to be collected are bounded, and the input is read as it is needed. So
memory depends on the limit and not on the input. A semaphore doesn't do that: it bounds the running tasks, but a
million tasks that wait for it all exist.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Any, Final, Literal, TypeVar, Unpack, overload

from headgate._checks import check, function as is_function
from headgate._option import OptionSet
from headgate.tasks._call_flow import CallFlow
from headgate.tasks._flow import FlowIterator
from headgate.tasks._options import AmapOptions, AmapOptionsButErrors, ForEachOptions, are_plain, check_pairs
from headgate.tasks._outcome import TaskOutcome, TaskStatistics
from headgate.tasks._source import source_of
from headgate.tasks._thread_source import thread_source_of
from headgate.tasks._throttled_flow import ThrottledFlow

T = TypeVar("T")
R = TypeVar("R")

_OPTIONS: Final = OptionSet(AmapOptions[Any], of="amap")


class TaskResults(FlowIterator[R]):
    """The async iterator over results that `amap` returns, which is also an async context manager.

    >>> async with headgate.amap(fetch, ["a", "bb"], limit=1) as pages:
    ...     print([page async for page in pages], pages.statistics().succeeded)
    ['page of a', 'page of bb'] 2
    """

    __module__ = "headgate"

    _flow: CallFlow

    def __init__(self, flow: CallFlow) -> None:
        self._flow = flow  # pyright: ignore[reportIncompatibleVariableOverride] # it is set once

    def stop(self) -> list[Any]:
        """Starts nothing new; calls that have started finish, with their retries, and their results are delivered.

        >>> async with headgate.amap(fetch, ["a", "bb", "ccc"], limit=1) as pages:
        ...     first, left = await anext(pages), pages.stop()
        >>> first
        'page of a'

        Returns:
            Items that were read from the source and won't be started, in their order: those that were waiting for a
            limit, a rate or their key.
        """
        return self._flow.stop()

    def statistics(self) -> TaskStatistics:
        """Returns the progress so far."""
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
    """Calls an async function for each item, at most `limit` at a time, and yields the results as calls finish.

        async with amap(fetch, urls, limit=1000) as results:
            async for result in results:
                print(result)

    Items are read as they are needed, at most one ahead of the running calls (with `key`, up to the bound below), so
    there can be infinitely many. A slow source doesn't delay results. An error of the source is raised once, after the
    results of all calls that were started. Each call is a task of its own, in a copy of the context in which the block
    was entered (and of what a sync source has set there since).

    Bound: at most `limit + buffer` items are running, waiting (for a limit, a rate, a key or the next attempt) or not
    collected; with `ordered`, at most `window + 1`. If your loop is slow, new calls wait.

    Leaving the block cancels the running calls, once, and waits until they have ended; what a call raises while it is
    being cancelled is dropped. Without a block, `async for result in amap(...)` does the same if it is cancelled or
    raises an error (so one cancelled `anext` ends it). If you leave it by `break` or by an error in its body, it
    cancels the calls without waiting.

    Args:
        function: An `async def` function, or any function that returns an awaitable.
        items: What to call it with: an iterable or async iterable, which is closed at the end.
        **options: `limit` is required; `help(headgate.amap)` describes each with its default.

    Raises:
        TypeError: An argument has the wrong type.
        NotAwaitableError: While iterating: `function` returned something that can't be awaited. It is a `TypeError`.
        ValueError: A number is too small, or an argument needs another one that is missing.
        TooManyFailures: While iterating: more items failed than `max_failures` allows.
        StrayCancellation: While iterating: a call or the source was cancelled, but not the map.
        ClosedEarly: While iterating: another task closed it, or a wait without a block was cancelled.
        RuntimeError: While iterating: no event loop is running, or something raised `StopAsyncIteration`.
    """
    return TaskResults(flow_of(function, items, _OPTIONS.read(options)))


def flow_of(function: Callable[[Any], Any], items: object, options: AmapOptions[Any]) -> CallFlow:
    """Returns the flow that calls the function with each item."""
    check("function", function, is_function)
    check_pairs(options)
    source = (thread_source_of if options["source_in_thread"] else source_of)(items, "items")
    return (CallFlow if are_plain(options) else ThrottledFlow)(source, function, options)


_FOR_EACH_OPTIONS: Final = OptionSet(ForEachOptions[Any], of="for_each")


@_FOR_EACH_OPTIONS.shown_by
async def for_each(
    function: Callable[[T], Awaitable[object]],
    items: Iterable[T] | AsyncIterable[T],
    **options: Unpack[ForEachOptions[T]],
) -> TaskStatistics:
    """Calls an async function for each item, at most `limit` at a time, and drops what the calls return.

        await for_each(store, rows, limit=100)

    Cancelling it cancels the running calls and waits for them. It also raises the errors of `amap`.

    Args:
        function: An `async def` function, or any function that returns an awaitable.
        items: What to call it with: an iterable or async iterable, which is closed at the end.
        **options: `limit` is required; `help(headgate.for_each)` describes each with its default.

    Returns:
        How many calls succeeded, failed and were retried.
    """
    async with amap(function, items, **_FOR_EACH_OPTIONS.read(options)) as results:
        async for _ in results:
            pass
        return results.statistics()
