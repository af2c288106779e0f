"""The server of a mock's connections: one thread that reads requests and writes responses."""

import asyncio
import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

from headgate._format import size
from headgate._native import MockConnection, MockNetwork
from headgate.client._headers import Headers
from headgate.testing._calls import MockRequest
from headgate.testing._response import MockFailure, MockResponse

MAX_THREADS: Final = 64
"""The bound of functions that run at once; more are queued."""


class FunctionThreads:
    """Calls functions in daemon threads, which do not delay the end of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0
        self._news = threading.Condition(self._lock)
        self._is_closed = False

    def call(self, work: Callable[[], None]) -> None:
        """Queues a function, which must not raise an error."""
        with self._lock:
            self._waiting.append(work)
            starts = self._idle < len(self._waiting) and self._threads < MAX_THREADS
            self._threads += starts
            self._news.notify()
        if starts:
            threading.Thread(target=self._work, name="headgate-mock-response", daemon=True).start()

    def close(self) -> None:
        """Drops queued functions; running ones finish."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            self._news.notify_all()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                while not self._waiting and not self._is_closed:
                    self._news.wait()
                self._idle -= 1
                if self._is_closed:
                    return
                work = self._waiting.popleft()
            work()


MAX_BODY_BYTES: Final = 1024 * 1024 * 1024
"""A request with a longer body fails, because bodies are in memory."""

_FRAMING: Final = ("content-length", "transfer-encoding")
_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304


class TooLarge(Exception):  # noqa: N818 - what happened
    """The body of a request is longer than `MAX_BODY_BYTES`."""


class RequestReader:
    """Parses the requests of one connection, one after another."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._buffer = bytearray()
        self._head: tuple[str, str, Headers] | None = None
        self._missing = 0

    def feed(self, data: bytes) -> None:
        """Adds received bytes."""
        self._buffer += data

    def take(self) -> MockRequest | None:
        """Removes and returns the next request, if it is complete.

        Raises:
            TooLarge: Its body is too large.
        """
        if self._head is None and not self._parse_head():
            return None
        if self._head is None or len(self._buffer) < self._missing:
            return None
        method, target, headers = self._head
        body = bytes(self._buffer[: self._missing])
        del self._buffer[: self._missing]
        self._head = None
        return MockRequest(method, self._origin + target, headers, body)

    def _parse_head(self) -> bool:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        method, target, _ = first.split(" ", 2)
        pairs = [(name, value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        headers = Headers(pairs)
        self._missing = int(headers.get("content-length", "0"))
        if self._missing > MAX_BODY_BYTES:
            raise TooLarge
        self._head = method, target, headers
        return True


def response_bytes(response: MockResponse, method: str) -> tuple[bytes, bool]:
    """Returns the bytes of a response to a request with this method, and whether the connection ends after them."""
    has_body = response.status not in {_NO_CONTENT, _NOT_MODIFIED}
    lines = [f"HTTP/1.1 {response.status} {response.phrase}"]
    lines += [f"{name}: {value}" for name, value in response.headers.multi_items()]
    if has_body and not any(name in response.headers for name in _FRAMING):
        lines.append(f"Content-Length: {len(response.content)}")
    head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
    body = response.content if has_body and method != "HEAD" else b""
    ends = response.headers.get("connection", "").lower() == "close"
    if response.cut_after is not None:
        return head + body[: response.cut_after], True
    return head + body, ends


Decision: TypeAlias = MockResponse | MockFailure
Decide: TypeAlias = Callable[[MockRequest], Decision | Callable[[], Decision]]
"""Returns the response to a request, or a function that returns it and may block."""

_ENDED: Final = MockFailure("connection_closed", "the mock has ended", is_lasting=True)
_TOO_LARGE: Final = MockFailure(
    "invalid_request", f"the mock takes no body of more than {size(MAX_BODY_BYTES)}", is_lasting=True
)


class MockServing:
    """Serves the connections of engines that are started while it runs."""

    def __init__(self, decide: Decide) -> None:
        self.network = MockNetwork()
        self.decide = decide
        self.function_threads = FunctionThreads()
        self._connections: set[_Connection] = set()
        self._all_closed = asyncio.Event()
        self._accepting: set[asyncio.Task[object]] = set()
        self._started = threading.Event()
        self._loop = asyncio.SelectorEventLoop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-mock", daemon=True)

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """Fails requests in flight, and returns when all connections are closed. In a fork it does nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def call_soon(self, call: Callable[[], None]) -> None:
        """Schedules a call in the thread. After its end this does nothing."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        self._loop.add_reader(self.network.fileno(), self._accept)
        self._started.set()
        await self._ended.wait()
        self._accept()
        self._loop.remove_reader(self.network.fileno())
        self.network.close()
        self.function_threads.close()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        self._all_closed.clear()
        for connection in list(self._connections):
            connection.end()
        if self._connections:
            await self._all_closed.wait()

    def add_connection(self, connection: "_Connection") -> None:
        """Adds an open connection."""
        self._connections.add(connection)

    def remove_connection(self, connection: "_Connection") -> None:
        """Removes a closed connection."""
        self._connections.discard(connection)
        if not self._connections:
            self._all_closed.set()

    def _accept(self) -> None:
        for native in self.network.accept():
            accepted = socket.socket(fileno=native.detach())
            accepted.setblocking(False)  # noqa: FBT003 - it has no keywords

            def create(native: MockConnection = native) -> _Connection:
                return _Connection(native, self)

            task = self._loop.create_task(self._loop.connect_accepted_socket(create, accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)


class _Connection(asyncio.Protocol):
    """A connection, which serves one request at a time."""

    def __init__(self, native: MockConnection, serving: MockServing) -> None:
        self._native = native
        self._serving = serving
        self._reader = RequestReader(native.origin)
        self._transport: asyncio.Transport | None = None
        self._request: MockRequest | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - sockets have this type
        self._transport = transport
        self._serving.add_connection(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the reason does not matter
        self._transport = None
        self._serving.remove_connection(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._serve_next()

    def end(self) -> None:
        """Fails the request in flight, or closes the idle connection."""
        if self._request is not None:
            self._fail(_ENDED)
        elif self._transport is not None:
            self._transport.abort()

    def _serve_next(self) -> None:
        if self._request is not None:
            return
        try:
            self._request = self._reader.take()
        except TooLarge:
            self._fail(_TOO_LARGE)
        if self._request is not None:
            decided = self._serving.decide(self._request)
            if callable(decided):
                self._compute(decided)
            else:
                self._respond(decided)

    def _compute(self, compute: Callable[[], Decision]) -> None:
        def work() -> None:
            decision = compute()
            self._serving.call_soon(lambda: self._respond(decision))

        self._serving.function_threads.call(work)

    def _respond(self, decision: Decision) -> None:
        if isinstance(decision, MockFailure):
            self._fail(decision)
        elif decision.delay > 0:
            self._timer = asyncio.get_running_loop().call_later(decision.delay, self._write_response, decision)
        else:
            self._write_response(decision)

    def _write_response(self, response: MockResponse) -> None:
        if self._transport is None or self._request is None:
            return
        data, ends = response_bytes(response, self._request.method)
        self._request = None
        self._transport.write(data)
        if ends:
            self._transport.close()
        else:
            self._serve_next()

    def _fail(self, failure: MockFailure) -> None:
        if self._transport is not None:
            self._native.fail(failure.kind, failure.message, failure.detail, failure.is_lasting)
            self._transport.abort()
