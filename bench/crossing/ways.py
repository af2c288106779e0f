"""Ways of calling a coroutine function from a thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib import import_module
from typing import Any, Final

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
Function = Callable[[], Coroutine[Any, Any, int]]
Call = Callable[[Function], int]

OURS: Final = "headgate.Portal"
STDLIB: Final = "run_coroutine_threadsafe"
ANYIO: Final = "anyio's portal"


@contextmanager
def headgate(loop_factory: LoopFactory) -> Iterator[Call]:
    """Opens headgate's portal."""
    with import_module("headgate").Portal(loop_factory=loop_factory) as portal:
        yield portal.call


@contextmanager
def stdlib(loop_factory: LoopFactory) -> Iterator[Call]:
    """Starts a loop in a thread, for `asyncio.run_coroutine_threadsafe`."""
    loop = loop_factory()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield lambda function: asyncio.run_coroutine_threadsafe(function(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def anyio(loop_factory: LoopFactory) -> Iterator[Call]:
    """Opens anyio's portal, which creates its own loop."""
    options: dict[str, Any] = {"loop_factory": loop_factory}
    with import_module("anyio.from_thread").start_blocking_portal("asyncio", options) as portal:
        yield portal.call


WAYS: Final[dict[str, Callable[[LoopFactory], AbstractContextManager[Call]]]] = {
    OURS: headgate,
    STDLIB: stdlib,
    ANYIO: anyio,
}
