"""The clients: a file for each family, and here a row for each client.

Only the process that measures a client loads it. A family has functions of one of two types. `Threads` yields a
function that creates a `Get` for each thread, called before the threads begin. `Loop` yields an `AsyncGet`, and a
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
    """The target of the requests.

    Attributes:
        host: An IP address.
        port: The port.
        at_once: The bound of requests in flight.
        loop: `ASYNCIO` or `UVLOOP`; a client without a loop ignores it.
    """

    host: str
    port: int
    at_once: int
    loop: str = ASYNCIO

    def url(self, number: int) -> str:
        """Returns a different URL for each request."""
        return f"http://{self.host}:{self.port}/{number}"


Get: TypeAlias = Callable[[int], bytes]
"""Makes the request with this number, waits, and returns the body; raises an error if the status is not 200."""
AsyncGet: TypeAlias = Callable[[int], Coroutine[Any, Any, bytes]]
"""Does the same in a loop."""


class InLoop(Protocol):
    """A client and the loop to which it belongs."""

    @property
    def get(self) -> AsyncGet: ...  # noqa: D102 - described above

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs a coroutine in the loop, to its end."""


Threads: TypeAlias = Callable[[Target], AbstractContextManager[Callable[[], Get]]]
Loop: TypeAlias = Callable[[Target], AbstractContextManager[InLoop]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Client:
    """A row of the tables.

    Attributes:
        name: The name of the row, and for `--only`.
        where: The file in this package and the function in it, such as `blocking.requests`.
        caller: `IN_A_THREAD` for a `Threads`, or `IN_THE_LOOP` for a `Loop`.
        packages: The packages that it needs.
        attribute: An attribute that the first package must have; empty: any version will do.
        loop: As in `Target`.
        aborts: Whether its threads abort the interpreter at exit, so that the process has to use `os._exit`.
    """

    name: str
    where: str
    caller: str
    packages: tuple[str, ...] = ()
    attribute: str = ""
    loop: str = ASYNCIO
    aborts: bool = False

    def opener(self) -> Any:  # noqa: ANN401 - its type depends on `caller`
        """Imports and returns the function."""
        module, _, function = self.where.partition(".")
        return getattr(importlib.import_module(f"{__name__}.{module}"), function)

    def threads(self) -> Threads:
        """Imports and returns the function of a client for threads."""
        return cast("Threads", self.opener())

    def in_loop(self) -> Loop:
        """Imports and returns the function of a client for a loop."""
        return cast("Loop", self.opener())

    def missing(self) -> str | None:
        """Returns why it can't run here and how to install it, or `None` if it can."""
        for package in self.packages:
            if importlib.util.find_spec(package) is None:
                return f"no package {package}; run: pip install -r requirements/bench.txt"
        if self.attribute and not hasattr(importlib.import_module(self.packages[0]), self.attribute):
            return f"this {self.packages[0]} has no {self.attribute}"
        return None


def _blocking(name: str, where: str, *packages: str, attribute: str = "", aborts: bool = False) -> Client:
    return Client(name=name, where=where, caller=IN_A_THREAD, packages=packages, attribute=attribute, aborts=aborts)


def _on_uvloop(client: Client) -> tuple[Client, Client]:
    """Returns the client on asyncio's loop and on uvloop."""
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
    """Returns the client with this name."""
    return next(client for client in CLIENTS if client.name == name)
