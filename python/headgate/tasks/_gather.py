"""`asyncio.gather` with a limit, for a few awaitables whose results are all needed at once."""

import asyncio
from collections.abc import Awaitable, Iterable
from inspect import isawaitable
from typing import Annotated, Any, Final, Literal, TypeVar, Unpack, overload

from headgate._option import Option, OptionSet
from headgate.tasks._as_completed import FutureLimitOption, as_completed, close_all, wait_without_cancelling
from headgate.tasks._outcome import shown

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
E = TypeVar("E")
F = TypeVar("F")


class GatherOptions(FutureLimitOption, total=False):
    """The options of `gather`."""

    return_exceptions: Annotated[
        bool,
        Option(
            help=(
                "Whether errors are returned among the results instead of raised, and so is the cancellation of one."
            ),
            default=False,
        ),
    ]


_OPTIONS: Final = OptionSet(GatherOptions, of="gather")


# The types of up to six arguments are united one by one: mypy would find only a common base class of more.
@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    /,
    *,
    return_exceptions: Literal[False] = ...,
    **options: Unpack[FutureLimitOption],
) -> list[A | B]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    third: Awaitable[C],
    /,
    *,
    return_exceptions: Literal[False] = ...,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | C]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    third: Awaitable[C],
    fourth: Awaitable[D],
    /,
    *,
    return_exceptions: Literal[False] = ...,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | C | D]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    third: Awaitable[C],
    fourth: Awaitable[D],
    fifth: Awaitable[E],
    /,
    *,
    return_exceptions: Literal[False] = ...,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | C | D | E]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    third: Awaitable[C],
    fourth: Awaitable[D],
    fifth: Awaitable[E],
    sixth: Awaitable[F],
    /,
    *,
    return_exceptions: Literal[False] = ...,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | C | D | E | F]: ...


@overload
async def gather(
    *aws: Awaitable[A], return_exceptions: Literal[False] = ..., **options: Unpack[FutureLimitOption]
) -> list[A]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    /,
    *,
    return_exceptions: bool,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | BaseException]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    third: Awaitable[C],
    /,
    *,
    return_exceptions: bool,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | C | BaseException]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    third: Awaitable[C],
    fourth: Awaitable[D],
    /,
    *,
    return_exceptions: bool,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | C | D | BaseException]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    third: Awaitable[C],
    fourth: Awaitable[D],
    fifth: Awaitable[E],
    /,
    *,
    return_exceptions: bool,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | C | D | E | BaseException]: ...


@overload
async def gather(
    first: Awaitable[A],
    second: Awaitable[B],
    third: Awaitable[C],
    fourth: Awaitable[D],
    fifth: Awaitable[E],
    sixth: Awaitable[F],
    /,
    *,
    return_exceptions: bool,
    **options: Unpack[FutureLimitOption],
) -> list[A | B | C | D | E | F | BaseException]: ...


@overload
async def gather(
    *aws: Awaitable[A], return_exceptions: bool, **options: Unpack[FutureLimitOption]
) -> list[A | BaseException]: ...


@_OPTIONS.shown_by
async def gather(*aws: Awaitable[Any], **options: Unpack[GatherOptions]) -> list[Any]:
    """Awaits all arguments, at most `limit` at a time, and returns their results in order, as `asyncio.gather` does.

        pages = await gather(*(fetch(url) for url in urls), limit=10)

    The first error cancels the running coroutines, waits until they have ended, and is raised; coroutines that never
    started are closed. (`asyncio.gather` would let them continue.) Cancelling it does the same. Futures that you passed
    in continue to run in either case, because they belong to other code.

    Args:
        *aws: Coroutines, futures and other awaitables. All of them, and all results, are held in memory: use `amap` if
            there are too many for that. A coroutine can be given only once.
        **options: `limit` is required; `help(headgate.gather)` describes each with its default.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `limit` is below 1.
        asyncio.CancelledError: It was cancelled, or one of the arguments was, as in `asyncio.gather`.
    """
    results: list[Any] = [None] * len(aws)
    is_left = False

    # It does not refer to `results`: an error among them refers to this frame through its traceback.
    async def settle(index: int) -> tuple[int, Any]:
        awaitable = aws[index]
        try:
            if asyncio.isfuture(awaitable):
                awaitable = wait_without_cancelling(awaitable)
            return index, await awaitable
        except (Exception, asyncio.CancelledError) as error:
            if not complete["return_exceptions"] or is_left:
                raise
            return index, error

    try:
        complete = _OPTIONS.read(options)
        _check_awaitables(aws)
        async with as_completed((settle(index) for index in range(len(aws))), limit=complete["limit"]) as futures:
            try:
                async for future in futures:
                    try:
                        index, results[index] = future.result()
                    finally:
                        del future  # else its error, whose traceback has this frame, would be a cycle
            finally:
                is_left = True
    finally:
        close_all(aws)  # it has no effect on coroutines that were started
        aws = ()  # a future among them has its error, whose traceback has this frame
    return results


def _check_awaitables(aws: Iterable[object]) -> None:
    for awaitable in aws:
        if not isawaitable(awaitable):
            hint = "give them one by one, gather(*aws)" if isinstance(awaitable, Iterable) else "call it, f(x)"
            raise TypeError(f"gather takes awaitables, and was given {shown(awaitable)}: {hint}")
        if asyncio.isfuture(awaitable) and awaitable.get_loop() is not asyncio.get_running_loop():
            raise ValueError("a future that gather was given belongs to another event loop")
