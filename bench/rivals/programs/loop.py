"""Fixed workers of a loop that take their requests from one iterator: the fastest bounded way of these clients.

They make the requests that headgate makes: a URL of its own for each, the body read and its length looked at.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Final

from rivals.programs import Counted

Get = Callable[[str], Awaitable[tuple[int, int]]]


@asynccontextmanager
async def _aiohttp(_concurrency: int) -> AsyncIterator[Get]:
    package = import_module("aiohttp")
    # the connector's own limit, 100 by default, would queue what the workers already bound
    async with package.ClientSession(connector=package.TCPConnector(limit=0)) as session:

        async def get(url: str) -> tuple[int, int]:
            async with session.get(url) as response:
                return response.status, len(await response.read())

        yield get


@asynccontextmanager
async def _pyreqwest(_concurrency: int) -> AsyncIterator[Get]:
    async with import_module("pyreqwest.client").ClientBuilder().build() as client:

        async def get(url: str) -> tuple[int, int]:
            response = await client.get(url).build().send()
            return response.status, len(await response.bytes())

        yield get


@asynccontextmanager
async def _headgate(concurrency: int) -> AsyncIterator[Get]:
    async with import_module("headgate").AsyncClient(concurrency=concurrency) as client:

        async def get(url: str) -> tuple[int, int]:
            response = await client.get(url)
            return response.status_code, len(response.content)

        yield get


_CLIENTS: Final[dict[str, Callable[[int], AbstractAsyncContextManager[Get]]]] = {
    "aiohttp": _aiohttp,
    "pyreqwest": _pyreqwest,
    "headgate": _headgate,
}


def run(client: str, url: str, requests: int, concurrency: int) -> Counted:
    """`client`: its name, and `+uvloop` where it is not asyncio's own loop."""
    name, _, loop = client.partition("+")
    with asyncio.Runner(loop_factory=import_module(loop).new_event_loop if loop else None) as runner:
        return runner.run(_run(name, url, requests, concurrency))


async def _run(name: str, url: str, requests: int, concurrency: int) -> Counted:
    numbers, counted = iter(range(1, requests + 1)), Counted()

    async def work(get: Get) -> None:
        for number in numbers:
            counted.add(*await get(f"{url}/{number}"))

    async with _CLIENTS[name](concurrency) as get, asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(work(get))
    return counted
