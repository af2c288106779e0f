"""Task factories that run a call at once, as far as it comes, before its task exists."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from types import coroutine
from typing import Any

import pytest


def make_eagerly(
    loop: asyncio.AbstractEventLoop, call: Coroutine[Any, Any, Any], **options: Any
) -> "asyncio.Task[Any]":
    """Does what `asyncio.eager_task_factory` of Python 3.12 does, for older versions."""
    try:
        awaited = call.send(None)
    except StopIteration as end:
        return asyncio.Task(_give(end.value), loop=loop, **options)
    except BaseException as error:  # noqa: BLE001 - its task raises what it raises
        return asyncio.Task(_fail(error), loop=loop, **options)
    return asyncio.Task(_go_on(call, awaited), loop=loop, **options)


async def _give(value: object) -> object:
    return value


async def _fail(error: BaseException) -> None:
    raise error


async def _go_on(call: Coroutine[Any, Any, Any], awaited: Any) -> Any:
    return await _rest(call, awaited)


@coroutine
def _rest(call: Coroutine[Any, Any, Any], awaited: Any) -> Generator[Any, Any, Any]:
    while True:
        try:
            sent = yield awaited
        except BaseException as error:  # noqa: BLE001 - the call gets it
            step = partial(call.throw, error)
        else:
            step = partial(call.send, sent)
        try:
            awaited = step()
        except StopIteration as end:
            return end.value


FACTORIES: list[Callable[..., Any]] = [make_eagerly]
if hasattr(asyncio, "eager_task_factory"):
    FACTORIES.append(asyncio.eager_task_factory)

either_factory = pytest.mark.parametrize("factory", FACTORIES)
