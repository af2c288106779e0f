"""aiohttp in a loop in a separate thread, called from other threads, which shows the cost of the crossing."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, TypeVar

from callers.clients import Get, Target
from callers.clients.loops import aiohttp_get, entered, left, loop_factory

Result = TypeVar("Result")


@contextmanager
def threadsafe(target: Target) -> Iterator[Callable[[], Get]]:
    """Opens aiohttp's client for calls through `asyncio.run_coroutine_threadsafe`."""
    loop = loop_factory(target)()
    thread = threading.Thread(target=loop.run_forever)

    def call(work: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    thread.start()
    try:
        opened = aiohttp_get(target)
        get = call(entered(opened))
        try:
            yield lambda: lambda number: call(get(number))
        finally:
            call(left(opened))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def anyio(target: Target) -> Iterator[Callable[[], Get]]:
    """Opens aiohttp's client for calls through anyio's blocking portal."""
    options: dict[str, Any] = {"loop_factory": loop_factory(target)}
    with import_module("anyio.from_thread").start_blocking_portal("asyncio", options) as portal:
        opened = aiohttp_get(target)
        get = portal.call(entered, opened)
        try:
            yield lambda: lambda number: portal.call(get, number)
        finally:
            portal.call(left, opened)
