"""Clients for an event loop, called within it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, Final, TypeAlias

from callers.clients import UVLOOP, AsyncGet, InLoop, Target

_OK: Final = 200

Opened: TypeAlias = Callable[[Target], AbstractAsyncContextManager[AsyncGet]]


def loop_factory(target: Target) -> Callable[[], asyncio.AbstractEventLoop]:
    """Returns the factory of the target's loop."""
    if target.loop != UVLOOP:
        return asyncio.new_event_loop
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


@asynccontextmanager
async def headgate_get(target: Target) -> AsyncIterator[AsyncGet]:
    """Opens headgate's client."""
    async with import_module("headgate").AsyncClient(concurrency=target.at_once) as client:

        async def get(number: int) -> bytes:
            response = await client.get(target.url(number))
            if response.status_code != _OK:
                raise ValueError(response.status_code)
            content: bytes = response.content
            return content

        yield get


@asynccontextmanager
async def aiohttp_get(target: Target) -> AsyncIterator[AsyncGet]:
    """Opens aiohttp's client without its limit of 100 connections, because the callers bound the requests already."""
    package = import_module("aiohttp")
    async with package.ClientSession(connector=package.TCPConnector(limit=0)) as session:

        async def get(number: int) -> bytes:
            async with session.get(target.url(number)) as response:
                if response.status != _OK:
                    raise ValueError(response.status)
                content: bytes = await response.read()
                return content

        yield get


@asynccontextmanager
async def pyreqwest_get(target: Target) -> AsyncIterator[AsyncGet]:
    """Opens pyreqwest's client, which has separate threads."""
    async with import_module("pyreqwest.client").ClientBuilder().build() as client:

        async def get(number: int) -> bytes:
            response = await client.get(target.url(number)).build().send()
            if response.status != _OK:
                raise ValueError(response.status)
            content: bytes = (await response.bytes()).to_bytes()
            return content

        yield get


# `__aenter__` returns an awaitable, and the runners accept only coroutines.
async def entered(opened: AbstractAsyncContextManager[AsyncGet]) -> AsyncGet:
    """Enters a context manager; `left` leaves it."""
    return await opened.__aenter__()


async def left(opened: AbstractAsyncContextManager[AsyncGet]) -> None:
    """Leaves a context manager that `entered` has entered."""
    await opened.__aexit__(None, None, None)


@dataclass(frozen=True, slots=True)
class _InRunner:
    get: AsyncGet
    runner: asyncio.Runner

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        self.runner.run(work)


@contextmanager
def _opened(client: Opened, target: Target) -> Iterator[InLoop]:
    with asyncio.Runner(loop_factory=loop_factory(target)) as runner:
        opened = client(target)
        get = runner.run(entered(opened))
        try:
            yield _InRunner(get, runner)
        finally:
            runner.run(left(opened))


headgate: Final = partial(_opened, headgate_get)
aiohttp: Final = partial(_opened, aiohttp_get)
pyreqwest: Final = partial(_opened, pyreqwest_get)
