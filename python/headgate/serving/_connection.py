"""The connections of a mock network, served in an event loop."""

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias, cast

from headgate._native import MockConnection, MockNetwork
from headgate.serving._http1 import RequestHead, RequestParser

MAX_BUFFERED_BYTES: Final = 64 * 1024
"""With more received bytes that were not taken, no more are read from the connection."""


class ClientGone(ConnectionResetError):  # noqa: N818 - what happened
    """The client has closed the connection."""


class Connection(asyncio.Protocol):
    """A connection, whose requests are served one after another.

    Attributes:
        is_serving: Whether a request has come, and its response was not completed.
    """

    def __init__(self, native: MockConnection, server: "ConnectionServer") -> None:
        self._native = native
        self._server = server
        self._parser = RequestParser()
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self._is_paused = False
        self._is_writable = True
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.is_serving: bool = False

    @property
    def origin(self) -> str:
        """The origin to which the client connects, such as `https://api.example.com`."""
        return self._native.origin

    @property
    def tag(self) -> int:
        """The tag of the network that the client uses."""
        return self._native.tag

    async def serve(self) -> None:
        """Serves the requests of the connection until it is closed."""
        try:
            while True:
                while (head := self._parser.next_head()) is None:
                    await self._more()
                self.is_serving = True
                await self._server.handle(self, head)
                while await self.read():
                    pass  # a body that was not read is dropped
                self.is_serving = False
                if self._server.single_use:
                    self.close()
        except ClientGone:
            pass
        except Exception as error:
            self.fail("protocol", f"the server within this process failed: {error!r}", is_lasting=True)
            raise

    async def read(self) -> bytes:
        """Waits for bytes of the body, and returns them: none at its end.

        Raises:
            ClientGone: The connection was closed before the end of the body.
        """
        while (piece := self._parser.next_piece()) is None:
            await self._more()
        if self._parser.buffered <= MAX_BUFFERED_BYTES:
            # Otherwise the end of the connection would not be noticed.
            self._resume_reading()
        return piece

    @property
    def is_body_complete(self) -> bool:
        """Whether `read` has returned all of the body; of a chunked one, this is known after its end was returned."""
        return self._parser.is_body_complete

    async def write(self, data: bytes) -> None:
        """Writes bytes, and waits while too many are buffered.

        Raises:
            ClientGone: The connection was closed.
        """
        if self._transport is None:
            raise ClientGone
        self._transport.write(data)
        while not self._is_writable:
            await self._change()

    def write_soon(self, data: bytes) -> None:
        """Writes bytes without waiting. Does nothing if the connection was closed."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Closes the connection when all that was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def fail(self, kind: str, message: str, detail: str = "", *, is_lasting: bool = False) -> None:
        """Closes the connection, so that the exchange fails with this error."""
        if self._transport is not None:
            self._native.fail(kind, message, detail, is_lasting)
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # That of uvloop has another base.
        self._transport = cast("asyncio.Transport", transport)
        self._server.begin(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        self._transport = None
        self._is_closed = True
        self._notify()
        self._server.lost(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed(data)
        if self._parser.buffered > MAX_BUFFERED_BYTES and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()
        self._notify()

    def pause_writing(self) -> None:
        self._is_writable = False

    def resume_writing(self) -> None:
        self._is_writable = True
        self._notify()

    async def _more(self) -> None:
        """Waits for more bytes. Raises as `read`."""
        self._resume_reading()
        await self._change()

    def _resume_reading(self) -> None:
        if self._is_paused and self._transport is not None and not self._transport.is_closing():
            self._is_paused = False
            self._transport.resume_reading()

    async def _change(self) -> None:
        if self._is_closed:
            raise ClientGone
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        await waiting
        if self._is_closed:
            raise ClientGone

    def _notify(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        for one in waiting:
            if not one.done():
                one.set_result(None)


Handle: TypeAlias = Callable[[Connection, RequestHead], Coroutine[Any, Any, None]]
"""Responds to a request. It is cancelled when the connection is closed."""


class ConnectionServer:
    """Serves the connections of engines that use a network, in one event loop."""

    def __init__(self, network: MockNetwork, handle: Handle, *, single_use: bool) -> None:
        self.network = network
        self.handle = handle
        self.single_use = single_use
        self._accepting: set[asyncio.Task[object]] = set()
        self._serving: dict[Connection, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Starts to accept connections in the running loop."""
        asyncio.get_running_loop().add_reader(self.network.fileno(), self._accept)

    async def stop(self, end: Callable[[Connection], None]) -> None:
        """Accepts no more connections, calls `end` with those that are open, which must close them, and waits."""
        self._accept()
        asyncio.get_running_loop().remove_reader(self.network.fileno())
        self.network.close()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        for connection in self._serving:
            end(connection)
        while self._serving:
            await asyncio.wait(list(self._serving.values()))

    def begin(self, connection: Connection) -> None:
        """Begins to serve a connection."""
        self._serving[connection] = asyncio.get_running_loop().create_task(connection.serve())

    def lost(self, connection: Connection) -> None:
        """Cancels what serves a connection that was closed."""
        task = self._serving[connection]
        task.add_done_callback(lambda _: self._serving.pop(connection))
        task.cancel()

    def _accept(self) -> None:
        for native in self.network.accept():
            accepted = socket.socket(fileno=native.detach())
            accepted.setblocking(False)  # noqa: FBT003 - it has no keywords

            def create(native: MockConnection = native) -> Connection:
                return Connection(native, self)

            loop = asyncio.get_running_loop()
            task: asyncio.Task[object] = loop.create_task(loop.connect_accepted_socket(create, accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)
