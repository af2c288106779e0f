"""The ASGI application of a client, which serves its requests in place of the network.

That of a `Client` runs in an event loop in a thread of its own; that of an `AsyncClient` in the loop that uses the
client, so that it shares the loop's connections to databases and the like.
"""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from headgate._native import MockNetwork, NativeOutcome
from headgate.client._request import Native, NativeRequest
from headgate.serving._asgi_app import CONTEXT, AsgiApp, AsgiCallable
from headgate.serving._asgi_server import AsgiServer, Contexts


class ServedApp:
    """The base of both: what calls need."""

    def __init__(self, app: AsgiApp | AsgiCallable) -> None:
        self.app: AsgiApp = app if isinstance(app, AsgiApp) else AsgiApp(app)
        self.max_startup_s: float | None = None
        """The bound of the startup, which is the `total_timeout` of the client."""
        self.renew()

    def renew(self) -> None:
        """Starts over in a fork, which has neither the threads nor the connections of its parent."""
        self.network: MockNetwork = MockNetwork(single_use=True)
        self._contexts = Contexts()
        self._lock = threading.Lock()

    def ensure_running(self) -> None:
        """Starts to serve if nothing serves yet."""

    @contextlib.contextmanager
    def called(self, request: Native) -> Iterator[NativeRequest]:
        """Yields a request that the application serves with the context variables of the caller."""
        native = NativeRequest(request) if isinstance(request, str) else request
        contexts = self._contexts
        name = contexts.add(contextvars.copy_context())
        try:
            yield native._replace(headers=[*native.headers, (CONTEXT, name.encode())])
        finally:
            del contexts.contexts[name]

    def take_exception(self, error: tuple[str, str, str | None] | None) -> BaseException | None:
        """Returns the exception that the application raised, if this error of the engine is about one."""
        return None if error is None or error[2] is None else self._contexts.raised.pop(error[2], None)

    def check(self, outcome: NativeOutcome) -> None:
        """Raises the exception that the application raised in place of a response, if it did."""
        raised = self.take_exception(outcome.error)
        if raised is not None:
            raise raised


class AppInThread(ServedApp):
    """An application that runs in a thread, which ends with `close`."""

    def renew(self) -> None:
        super().renew()
        self._thread: threading.Thread | None = None
        self._has_started = threading.Event()
        self._has_ended: Future[None] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: AsgiServer | None = None
        self._ended: asyncio.Event | None = None
        self._error: BaseException | None = None

    def ensure_running(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="headgate-app", daemon=True)
                thread.start()
                self._thread = thread
                self._has_started.wait()
        if self._has_ended.done():
            raise self._ended_early()

    def startup(self) -> None:
        """Runs the startup of the application. Raises what it raises."""
        self.ensure_running()
        assert self._loop is not None  # noqa: S101 - it runs
        assert self._server is not None  # noqa: S101 - as above
        startup = self._server.startup()
        try:
            starting = asyncio.run_coroutine_threadsafe(startup, self._loop)
        except RuntimeError:  # the loop was closed meanwhile
            startup.close()
            raise self._ended_early() from None
        wait((starting, self._has_ended), return_when=FIRST_COMPLETED)
        if starting.cancelled() or not starting.done():
            self._has_ended.result()
            raise self._ended_early()
        starting.result()

    def request_stop(self) -> None:
        """Lets the thread end, without waiting for it."""
        if self._loop is not None and self._ended is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                self._loop.call_soon_threadsafe(self._ended.set)

    def close(self) -> None:
        """Runs the shutdown of the application, and waits for the end of the thread. Raises what it raises."""
        thread = self._thread
        if thread is None:
            return
        self.request_stop()
        thread.join()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - `close` raises it
            self._error = error
        finally:
            # Otherwise calls would wait for a response from a thread that has ended.
            self.network.close()
            self._has_ended.set_result(None)
            self._has_started.set()

    def _ended_early(self) -> RuntimeError:
        error = RuntimeError("the thread of the app has ended: the client can make no more requests")
        error.__cause__ = self._error
        return error

    async def _serve(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        self._server = AsgiServer(self.app, self.network, self._contexts, self.max_startup_s)
        self._server.start()
        self._has_started.set()
        try:
            await self._ended.wait()
        finally:
            await self._server.stop()


class AppInLoop(ServedApp):
    """An application that runs in the event loop that uses its client first, and after its end in the next one."""

    def renew(self) -> None:
        super().renew()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: AsgiServer | None = None

    def ensure_running(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # the client is only created, or shown
            return
        with self._lock:
            earlier = self._loop
            if earlier is loop or (earlier is not None and earlier.is_running()):
                return
            if earlier is not None and not earlier.is_closed():
                earlier.remove_reader(self.network.fileno())
            self._loop, self._server = loop, AsgiServer(self.app, self.network, self._contexts, self.max_startup_s)
            self._server.start()

    async def startup(self) -> None:
        """Runs the startup of the application. Raises what it raises."""
        self.ensure_running()
        if self._server is not None:
            await self._in_loop(self._server.startup())

    async def aclose(self) -> None:
        """Runs the shutdown of the application. Raises what it raises."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None and self._loop is not None and self._loop.is_running():
            await self._in_loop(server.stop())

    async def _in_loop(self, coroutine: Coroutine[Any, Any, None]) -> None:
        if self._loop is None or self._loop is asyncio.get_running_loop():
            await coroutine
        else:
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))
