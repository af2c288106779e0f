"""Fixed workers of a loop that take their requests from one iterator, which is the fastest use of these clients.

They make the same requests as headgate: each has a different URL, and the body is read and its length counted.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Final
from urllib.parse import urlsplit

from harness import many_hosts
from rivals.programs import Counted

Get = Callable[[str], Awaitable[tuple[int, int]]]


@asynccontextmanager
async def _aiohttp(_concurrency: int) -> AsyncIterator[Get]:
    package = import_module("aiohttp")
    # The connector's default limit of 100 would queue requests that the workers already bound.
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
    """Runs a client: its name, with `+uvloop` for that loop, and with `@1000` for so many hosts in random order."""
    client, _, hosts = client.partition("@")
    name, _, loop = client.partition("+")
    if hosts:
        urls: Iterable[str] = many_hosts.rows(int(hosts), urlsplit(url).port or 0, requests, "random")
    else:
        urls = (f"{url}/{number}" for number in range(1, requests + 1))
    with asyncio.Runner(loop_factory=import_module(loop).new_event_loop if loop else None) as runner:
        return runner.run(_run(name, urls, concurrency))


async def _run(name: str, urls: Iterable[str], concurrency: int) -> Counted:
    left, counted = iter(urls), Counted()

    async def work(get: Get) -> None:
        for url in left:
            counted.add(*await get(url))

    async with _CLIENTS[name](concurrency) as get, asyncio.TaskGroup() as workers:
        for _ in range(concurrency):
            workers.create_task(work(get))
    return counted
