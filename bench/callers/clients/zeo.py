"""ZEO's client, which has its loop in a separate thread.

`ClientStorage.loadBefore` looks into the cache, and then has its loop run `load_before_co`, which looks there again,
loads it from the server, and stores it. Within the loop, `load_before_co` is awaited. Every object is loaded once, so
that none is in the cache.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from callers.clients import AsyncGet, Get, InLoop, Target
from callers.clients.loops import loop_factory
from callers.zeo_objects import TID, oid


@contextmanager
def _storage(target: Target) -> Iterator[Any]:
    """Connects, on the target's loop and not on uvloop's, which ZEO uses if it is installed."""
    # ZEO's thread looks it up by this name.
    import_module("ZEO.asyncio.client").new_event_loop = loop_factory(target)  # type: ignore[attr-defined]
    storage = import_module("ZEO.ClientStorage").ClientStorage((target.host, target.port))
    try:
        yield storage
    finally:
        storage.close()


@contextmanager
def from_thread(target: Target) -> Iterator[Callable[[], Get]]:
    """Opens a storage that is called as applications do."""
    with _storage(target) as storage:

        def get(number: int) -> bytes:
            content: bytes = storage.loadBefore(oid(number), TID)[0]
            return content

        yield lambda: get


@dataclass(frozen=True, slots=True)
class _InIoThread:
    get: AsyncGet
    loop: asyncio.AbstractEventLoop

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine as ZEO runs its own."""
        import_module("ZEO.asyncio.futures").run_coroutine_threadsafe(work, self.loop).result()


@contextmanager
def within(target: Target) -> Iterator[InLoop]:
    """Opens a storage that is called as by ZEO's own thread."""
    with _storage(target) as storage:
        server = storage._server  # noqa: SLF001 - nothing public leads into the loop

        async def get(number: int) -> bytes:
            content: bytes = (await server.load_before_co(oid(number), TID, server.timeout))[0]
            return content

        yield _InIoThread(get, server.loop)
