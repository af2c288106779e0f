"""`amap` for code that has no event loop."""

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable
from typing import Annotated, Any, Final, Literal, TypedDict, TypeVar, Unpack, overload

from headgate._checks import function as is_function
from headgate._option import Option, OptionSet
from headgate.tasks._amap import flow_of
from headgate.tasks._map_iterator import LoopFactory, MapIterator
from headgate.tasks._options import AmapOptions, AmapOptionsButErrors
from headgate.tasks._outcome import TaskOutcome

T = TypeVar("T")
R = TypeVar("R")


class LoopOption(TypedDict, total=False):
    """Where calls run."""

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
    """Those of `map`."""


class MapOptionsButErrors(AmapOptionsButErrors[T], LoopOption):
    """Those of `map` on which the type of its results does not depend."""


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
    context variables of the caller that asks for the first result.

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
