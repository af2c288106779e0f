"""An ASGI application in an event loop: its requests, its startup and its shutdown."""

import asyncio
import contextvars
import itertools
import threading
from collections import OrderedDict
from typing import Any, Final, NoReturn

from headgate._native import MockNetwork
from headgate.serving._asgi_app import CONTEXT, EXCEPTION, AsgiApp, Message
from headgate.serving._asgi_exchange import VERSIONS, AsgiExchange, scope_of
from headgate.serving._connection import Connection, ConnectionServer
from headgate.serving._http1 import RequestHead

MAX_RAISED: Final = 1000
"""The bound of exceptions of the application that no call has raised; the oldest is dropped."""
MAX_STARTUP_S: Final = 300.0
"""The bound of the application's startup, which is cancelled then, unless its client has a `total_timeout`."""
MAX_SHUTDOWN_S: Final = 30.0
"""The bound of the application's shutdown, which is cancelled then."""
MAX_CANCEL_S: Final = 5.0
"""How long the server waits for requests of the application that it has cancelled."""


class Contexts:
    """The contexts of callers, and the exceptions that they are to raise."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)  # any thread may take the next one
        self.contexts: dict[str, contextvars.Context] = {}
        self.raised: OrderedDict[str, BaseException] = OrderedDict()

    def add(self, context: contextvars.Context) -> str:
        """Adds the context of a call, and returns its name."""
        name = str(next(self._numbers))
        self.contexts[name] = context
        return name

    def keep(self, error: BaseException) -> str:
        """Keeps an exception for the call that raises it, and returns its name."""
        name = f"{EXCEPTION}{next(self._numbers)}"
        self.raised[name] = error
        while len(self.raised) > MAX_RAISED:
            self.raised.popitem(last=False)
        return name


class AsgiServer:
    """Serves an ASGI application in the loop that calls it."""

    def __init__(self, app: AsgiApp, network: MockNetwork, contexts: Contexts, max_startup_s: float | None) -> None:
        """Creates the server. `max_startup_s` is the `total_timeout` of the client."""
        self._app = app
        self._contexts = contexts
        self._server = ConnectionServer(network, self._handle, single_use=True)
        self._lifespan = Lifespan(app, max_startup_s) if app.lifespan else None
        self._running: set[asyncio.Task[BaseException | None]] = set()

    def start(self) -> None:
        """Starts to serve in the running loop."""
        self._server.start()

    async def startup(self) -> None:
        """Runs the startup of the application, once, and waits for it.

        Raises:
            Exception: It failed.
        """
        if self._lifespan is not None:
            await self._lifespan.startup()

    async def stop(self) -> None:
        """Ends all requests, and runs the shutdown of the application.

        Raises:
            Exception: The shutdown failed.
        """
        await self._server.stop(
            lambda connection: connection.fail(
                "connection_closed", "the app was stopped, by a close or the end of its loop", is_lasting=True
            )
        )
        for task in self._running:
            task.cancel()
        if self._running:
            await asyncio.wait(self._running, timeout=MAX_CANCEL_S)
        if self._lifespan is not None:
            await self._lifespan.shutdown()

    async def _handle(self, connection: Connection, head: RequestHead) -> None:
        try:
            await self.startup()
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - the call raises it
            return self._fail(connection, error)
        name = next((value for name, value in head.headers if name.lower() == CONTEXT), "")
        headers = [header for header in head.headers if header[0].lower() != CONTEXT]
        exchange = AsgiExchange(connection, head.method)
        state = self._lifespan.state if self._lifespan is not None else None
        scope = scope_of(self._app, connection.origin, head._replace(headers=headers), state)
        task = asyncio.get_running_loop().create_task(
            self._call(scope, exchange), context=self._contexts.contexts.get(name)
        )
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        try:
            await asyncio.wait([task])
        finally:
            # The application continues if this is cancelled, because the client has gone.
            exchange.disconnect()
        raised = None if task.cancelled() else task.result()
        if raised is not None and self._app.raise_app_exceptions:
            return self._fail(connection, raised)
        if exchange.is_complete:
            await exchange.finish()
        elif not exchange.has_begun:
            await exchange.fail()
        else:
            connection.fail("connection_closed", "the app did not complete its response", is_lasting=True)
        return None

    async def _call(self, scope: dict[str, Any], exchange: AsgiExchange) -> BaseException | None:
        """Calls the application, and returns what it has raised, also a `SystemExit`, or an error of `pytest.fail`."""
        try:
            await self._app.app(scope, exchange.receive, exchange.send)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            # Ctrl-C ends the loop of the main thread; in another thread, the application itself has raised it.
            if isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread():
                raise
            return error
        return RuntimeError(f"the app returned {exchange.defect}") if exchange.defect else None

    def _fail(self, connection: Connection, error: BaseException) -> None:
        text = f"the app raised {type(error).__name__}: {error}"
        connection.fail("connection_closed", text, self._contexts.keep(error), is_lasting=True)


class Lifespan:
    """The startup and the shutdown of an application.

    An application that raises an exception before it responds to the startup has none, as servers assume.
    """

    def __init__(self, app: AsgiApp, max_startup_s: float | None) -> None:
        self._app = app
        self._max_startup_s = max_startup_s
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._state: dict[str, Any] = {}
        self._started = asyncio.Event()
        self._stopping = asyncio.Event()
        self._has_received = False
        self._failure = ""
        self._raised: BaseException | None = None
        self._is_supported = False

    @property
    def state(self) -> dict[str, Any] | None:
        """A copy of the application's state, for a request; `None` without a lifespan."""
        return dict(self._state) if self._is_supported else None

    async def startup(self) -> None:
        """Runs the startup once, and waits for it. Raises as `AsgiServer.startup`."""
        if self._task is None:
            loop = asyncio.get_running_loop()
            self._task = loop.create_task(self._run())
            self._timer = loop.call_later(self._max_startup_s or MAX_STARTUP_S, self._end_startup)
        await self._started.wait()
        if self._timer is not None:
            self._timer.cancel()
        if self._raised is not None:
            raise self._raised
        if self._failure:
            self._raise("startup", self._task)

    def _end_startup(self) -> None:
        if not self._started.is_set() and self._task is not None:
            name = "" if self._max_startup_s is None else ", the total_timeout of the client"
            self._failure = f"it took more than {self._max_startup_s or MAX_STARTUP_S:g} s{name}"
            self._task.cancel()
            self._started.set()

    async def shutdown(self) -> None:
        """Runs the shutdown, and waits for it. Raises as `AsgiServer.stop`."""
        if self._task is None or self._task.done():
            return
        if self._failure or not self._started.is_set():
            # Nothing has started that can be shut down. What has failed was raised by the startup.
            self._task.cancel()
            await asyncio.wait([self._task], timeout=MAX_CANCEL_S)
            return
        self._stopping.set()
        _, late = await asyncio.wait([self._task], timeout=MAX_SHUTDOWN_S)
        if late:
            self._failure = f"it took more than {MAX_SHUTDOWN_S:.0f} seconds"
            self._task.cancel()
            await asyncio.wait([self._task], timeout=MAX_CANCEL_S)
        if self._failure or (not self._task.cancelled() and self._task.exception() is not None):
            self._raise("shutdown", self._task)

    def _raise(self, what: str, task: asyncio.Task[None]) -> NoReturn:
        """Raises the exception that the application has raised itself, if it has."""
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            raise error
        raise RuntimeError(f"the {what} of the app failed: {self._failure}")

    async def _run(self) -> None:
        scope = {"type": "lifespan", "asgi": dict(VERSIONS), "state": self._state}
        try:
            await self._app.app(scope, self._receive, self._send)
        except Exception:
            if self._is_supported or self._failure:
                raise
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - `startup` raises it: in a task it would end the loop
            self._raised = error
        finally:
            self._started.set()

    async def _receive(self) -> Message:
        if not self._has_received:
            self._has_received = True
            return {"type": "lifespan.startup"}
        await self._stopping.wait()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind == "lifespan.startup.complete":
            self._is_supported = True
            self._started.set()
        elif kind in {"lifespan.startup.failed", "lifespan.shutdown.failed"}:
            self._failure = message.get("message", "") or "it gave no reason"
            # Most applications now raise the exception, which is the better report.
            asyncio.get_running_loop().call_soon(self._started.set)
        elif kind != "lifespan.shutdown.complete":
            raise RuntimeError(f"unexpected {kind!r} of a lifespan")
