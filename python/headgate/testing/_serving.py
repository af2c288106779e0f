"""The server of a mock's connections: one thread that reads requests and writes responses."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeAlias

from headgate._format import size
from headgate._native import MockNetwork
from headgate.client._headers import Headers
from headgate.serving._connection import ClientGone, Connection, ConnectionServer
from headgate.serving._http1 import LAST_CHUNK, RequestHead, chunk, head_bytes, may_have_body
from headgate.serving._threads import FunctionThreads
from headgate.testing._calls import MockRequest
from headgate.testing._loop import MockLoop
from headgate.testing._pass_through import KEPT, PassThrough
from headgate.testing._pieces import opened
from headgate.testing._response import MockFailure, MockResponse, PassesThrough

MAX_BODY_BYTES: Final = 1024 * 1024 * 1024
"""A request with a longer body fails, because bodies are in memory."""

_FRAMING: Final = ("content-length", "transfer-encoding")
_ENDED: Final = MockFailure("connection_closed", "the mock has ended", is_lasting=True)
_TOO_LARGE: Final = MockFailure(
    "invalid_request", f"the mock takes no body of more than {size(MAX_BODY_BYTES)}", is_lasting=True
)

Decision: TypeAlias = MockResponse | MockFailure | PassesThrough


Decide: TypeAlias = Callable[[MockRequest, FunctionThreads], Awaitable[Decision]]
"""Returns the response to a request; called in the thread of the mock, which it must not block."""
NoteError: TypeAlias = Callable[[BaseException], MockFailure]
"""Notes an error that makes a response fail, and returns the failure."""


class MockServing:
    """Serves the connections of engines that are started while it runs."""

    def __init__(self, decide: Decide, note_error: NoteError) -> None:
        self._decide = decide
        self._note_error = note_error
        self._threads = FunctionThreads()
        self._pass_through = PassThrough()
        self._lock = threading.Lock()
        self._options: list[dict[str, Any]] = []
        self._networks: dict[str, MockNetwork] = {}
        self.network = MockNetwork(single_use=False)
        self._server = ConnectionServer(self.network, self._handle, single_use=False)
        self._started = threading.Event()
        self._loop = MockLoop(self._server.network)
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-mock", daemon=True)

    def network_for(self, options: object) -> MockNetwork:
        """Returns the network for a client with these options: one for all with the same options of connections."""
        given = {name: value for name, value in vars(options).items() if name in KEPT}
        key = repr(given)
        with self._lock:
            network = self._networks.get(key)
            if network is None:
                network = self._networks[key] = self.network.tagged(len(self._options))
                self._options.append(given)
        return network

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """Fails requests in flight, and returns when all connections are closed. In a fork it does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._server.start()
        self._started.set()
        await self._ended.wait()
        await self._server.stop(lambda connection: _fail(connection, _ENDED))
        self._threads.close()
        self._pass_through.close()

    async def _handle(self, connection: Connection, head: RequestHead) -> None:
        if head.content_length > MAX_BODY_BYTES:
            return _fail(connection, _TOO_LARGE)
        body = bytearray()
        while piece := await connection.read():
            body += piece
            if len(body) > MAX_BODY_BYTES:
                return _fail(connection, _TOO_LARGE)
        headers = Headers([(name, _as_sent(value)) for name, value in head.headers])
        request = MockRequest(head.method, connection.origin + head.target, headers, bytes(body))
        decision = await self._decide(request, self._threads)
        if isinstance(decision, MockFailure):
            return _fail(connection, decision)
        if isinstance(decision, PassesThrough):
            return await self._pass_through.serve(connection, request, connection.tag, self._options[connection.tag])
        if decision.delay > 0:
            await asyncio.sleep(decision.delay)
        await self._respond(connection, request.method, decision)
        return None

    async def _respond(self, connection: Connection, method: str, response: MockResponse) -> None:
        head = _head_of(response)
        if response.pieces is None or not may_have_body(method, response.status):
            body = response.content if may_have_body(method, response.status) else b""
            await connection.write(head + body[: response.cut_after])
        else:
            try:
                await self._stream(connection, head, response)
            except ClientGone:
                raise
            except Exception as error:  # noqa: BLE001 - of the iterable that the user gave
                return _fail(connection, self._note_error(error))
        if response.cut_after is not None or response.headers.get("connection", "").lower() == "close":
            connection.close()
        return None

    async def _stream(self, connection: Connection, head: bytes, response: MockResponse) -> None:
        """Sends a body piece by piece."""
        is_chunked = not any(name in response.headers for name in _FRAMING)
        async with opened(response.take_pieces(), response.pause, self._threads) as pieces:
            await connection.write(head)
            async for piece in _cut(pieces(), response.cut_after):
                await connection.write(chunk(piece) if is_chunked else piece)
        if is_chunked and response.cut_after is None:
            await connection.write(LAST_CHUNK)


def _head_of(response: MockResponse) -> bytes:
    headers = response.headers.multi_items()
    if may_have_body("GET", response.status) and not any(name in response.headers for name in _FRAMING):
        is_whole = response.pieces is None
        headers.append(("Content-Length", str(len(response.content))) if is_whole else ("Transfer-Encoding", "chunked"))
    encoded = ((name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers)
    return head_bytes(response.status, encoded)


async def _cut(pieces: AsyncIterator[bytes], cut_after: int | None) -> AsyncIterator[bytes]:
    """Yields the pieces that are not empty, up to this number of bytes."""
    left = cut_after
    async for piece in pieces:
        if left is not None:
            piece = piece[:left]  # noqa: PLW2901 - the rest is not sent
            left -= len(piece)
        if piece:
            yield piece
        if left == 0:
            return


def _fail(connection: Connection, failure: MockFailure) -> None:
    connection.fail(failure.kind, failure.message, failure.detail, is_lasting=failure.is_lasting)


def _as_sent(value: str) -> str:
    """Returns the value of a header as a client gave it: headgate sends text in UTF-8."""
    try:
        return value.encode("latin-1").decode()
    except UnicodeDecodeError:
        return value
