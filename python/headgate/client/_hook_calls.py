"""Runs calls of hooks, which may be asynchronous."""

from collections.abc import Awaitable, Generator
from types import CoroutineType
from typing import TypeVar

T = TypeVar("T")

Calls = Generator[object, None, T]
"""Calls of hooks, one after another: it yields what each returns, which may have to be awaited."""


def run(calls: Calls[T]) -> T:
    """Makes calls of hooks, none of which may be asynchronous.

    Raises:
        TypeError: One is asynchronous.
        Exception: Whatever a hook raises.
    """
    try:
        while True:
            returned = next(calls)
            if isinstance(returned, Awaitable):
                if isinstance(returned, CoroutineType):
                    returned.close()
                wrong = TypeError("a hook is asynchronous, and nothing can await it here: make it a plain function")
                calls.throw(wrong)
    except StopIteration as end:
        result: T = end.value
        return result


async def run_async(calls: Calls[T], returned: object = None) -> T:
    """Makes calls of hooks, and awaits those that are asynchronous; first what an earlier call has `returned`.

    Raises:
        Exception: Whatever a hook raises.
    """
    try:
        while True:
            if not isinstance(returned, Awaitable):
                returned = next(calls)
                continue
            try:
                await returned
            except BaseException as error:  # noqa: BLE001 - it is raised where the hook was called
                returned = calls.throw(error)
            else:
                returned = next(calls)
    except StopIteration as end:
        result: T = end.value
        return result
