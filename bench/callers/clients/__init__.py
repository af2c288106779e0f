"""The clients: of each family a file, and here a row for each client.

Only the process that measures a client loads it. A family has functions of one of two shapes. A `Threads` gives a
function that makes a `Get` for each thread, called before the threads begin. A `Loop` gives an `AsyncGet`, and a
function that runs a coroutine in the loop to which it belongs.
"""

import importlib
import importlib.util
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeAlias, cast

ASYNCIO: Final = "asyncio"
UVLOOP: Final = "uvloop"
IN_A_THREAD: Final = "a thread"
IN_THE_LOOP: Final = "the loop"


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """What is asked.

    Attributes:
        host: An IP address.
        port: There.
        at_once: The most that is in flight.
        loop: `ASYNCIO` or `UVLOOP`; of no meaning to a client that has none.
    """

    host: str
    port: int
    at_once: int
    loop: str = ASYNCIO

    def url(self, number: int) -> str:
        """One of its own for each request, as callers have."""
        return f"http://{self.host}:{self.port}/{number}"


Get: TypeAlias = Callable[[int], bytes]
"""Makes the request with this number, waits, and gives the body; raises if the status is not 200."""
AsyncGet: TypeAlias = Callable[[int], Coroutine[Any, Any, bytes]]
"""The same for a loop."""


class InLoop(Protocol):
    """A client and the loop to which it belongs."""

    @property
    def get(self) -> AsyncGet: ...  # noqa: D102 - described above

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs it in the loop, to its end."""


Threads: TypeAlias = Callable[[Target], AbstractContextManager[Callable[[], Get]]]
Loop: TypeAlias = Callable[[Target], AbstractContextManager[InLoop]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Client:
    """A row of the tables.

    Attributes:
        name: Of the row, and for `--only`.
        where: File of this package and function in it, `blocking.requests`.
        caller: `IN_A_THREAD`, where it is of the shape of `Threads`, or `IN_THE_LOOP`, of `Loop`.
        packages: To be installed.
        attribute: That the first of them has to have; empty: any version will do.
        loop: As in `Target`.
        aborts: Its threads outlive it, and the interpreter with them when it ends: it has to be left, not ended.
    """

    name: str
    where: str
    caller: str
    packages: tuple[str, ...] = ()
    attribute: str = ""
    loop: str = ASYNCIO
    aborts: bool = False

    def opener(self) -> Any:  # noqa: ANN401 - `caller` tells which of the shapes
        """Loads it."""
        module, _, function = self.where.partition(".")
        return getattr(importlib.import_module(f"{__name__}.{module}"), function)

    def threads(self) -> Threads:
        """Loads one that is called from threads."""
        return cast("Threads", self.opener())

    def in_loop(self) -> Loop:
        """Loads one that is called in its loop."""
        return cast("Loop", self.opener())

    def missing(self) -> str | None:
        """Why it cannot run here and how to get it; `None`: it can."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                return f"no package {package}; run: pip install -r requirements/bench.txt"
        if self.attribute and not hasattr(importlib.import_module(self.packages[0]), self.attribute):
            return f"this {self.packages[0]} has no {self.attribute}"
        return None


def _blocking(name: str, where: str, *packages: str, attribute: str = "", aborts: bool = False) -> Client:
    return Client(name=name, where=where, caller=IN_A_THREAD, packages=packages, attribute=attribute, aborts=aborts)


def _on_uvloop(client: Client) -> tuple[Client, Client]:
    """On either loop."""
    other = replace(client, name=f"{client.name}, uvloop", packages=(*client.packages, "uvloop"), loop=UVLOOP)
    return client, other


def _in_loop(name: str, where: str, package: str, attribute: str = "", *, aborts: bool = False) -> Client:
    return Client(name=name, where=where, caller=IN_THE_LOOP, packages=(package,), attribute=attribute, aborts=aborts)


SOCKET: Final = _blocking("blocking socket", "floor.blocking_socket")
OURS: Final = _blocking("headgate.Client", "blocking.headgate", "headgate", attribute="Client")
THREADSAFE: Final = _on_uvloop(_blocking("aiohttp, run_coroutine_threadsafe", "portals.threadsafe", "aiohttp"))
OURS_ASYNC: Final = _on_uvloop(_in_loop("headgate.AsyncClient", "loops.headgate", "headgate", "AsyncClient"))
AIOHTTP: Final = _on_uvloop(_in_loop("aiohttp", "loops.aiohttp", "aiohttp"))
PYREQWEST: Final = _on_uvloop(_in_loop("pyreqwest", "loops.pyreqwest", "pyreqwest", aborts=True))
ZEO: Final = (
    *_on_uvloop(_blocking("ZEO", "zeo.from_thread", "ZEO")),
    *_on_uvloop(_in_loop("ZEO in its loop", "zeo.within", "ZEO")),
)

FROM_THREADS: Final = (
    SOCKET,
    OURS,
    _blocking("pyreqwest, SyncClient", "blocking.pyreqwest", "pyreqwest", aborts=True),
    _blocking("requests, Session", "blocking.requests", "requests"),
    _blocking("httpx, Client", "blocking.httpx", "httpx"),
    *THREADSAFE,
    _blocking("aiohttp, anyio's portal", "portals.anyio", "aiohttp", "anyio"),
)
IN_LOOPS: Final = (*OURS_ASYNC, *AIOHTTP, *PYREQWEST)
CLIENTS: Final = (*FROM_THREADS, *IN_LOOPS, *ZEO)


def named(name: str) -> Client:
    """That row."""
    return next(client for client in CLIENTS if client.name == name)
