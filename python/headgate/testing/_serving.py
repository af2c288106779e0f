"""The other end of a mock's connections: one thread that reads requests and writes answers."""

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
from headgate.testing._answer import Answer, Failure
from headgate.testing._calls import MockRequest

MAX_THREADS: Final = 64
"""Functions that run at once; others wait."""


class Workers:
    """Calls functions, each in a thread, and forgets them if the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0
        self._news = threading.Condition(self._lock)
        self._is_closed = False

    def call(self, work: Callable[[], None]) -> None:
        """Has this called; it must raise nothing."""
        with self._lock:
            self._waiting.append(work)
            starts = self._idle < len(self._waiting) and self._threads < MAX_THREADS
            self._threads += starts
            self._news.notify()
        if starts:
            threading.Thread(target=self._work, name="headgate-mock-answer", daemon=True).start()

    def close(self) -> None:
        """What waits is not called any more; what runs goes on to its end."""
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
"""A request with a longer body is refused: it is in memory."""

_FRAMING: Final = ("content-length", "transfer-encoding")
_NO_CONTENT: Final = 204
_NOT_MODIFIED: Final = 304


class TooLarge(Exception):  # noqa: N818 - what happened
    """A body is longer than there is memory for."""


class RequestReader:
    """Requests of one connection, one after another."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._buffer = bytearray()
        self._head: tuple[str, str, Headers] | None = None
        self._missing = 0

    def feed(self, data: bytes) -> None:
        """Takes what came."""
        self._buffer += data

    def take(self) -> MockRequest | None:
        """The next request, if it came whole.

        Raises:
            TooLarge: Its body is.
        """
        if self._head is None and not self._take_head():
            return None
        if self._head is None or len(self._buffer) < self._missing:
            return None
        method, target, headers = self._head
        body = bytes(self._buffer[: self._missing])
        del self._buffer[: self._missing]
        self._head = None
        return MockRequest(method, self._origin + target, headers, body)

    def _take_head(self) -> bool:
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


def answer_bytes(answer: Answer, method: str) -> tuple[bytes, bool]:
    """An answer to a request with that method, and whether the connection ends with it."""
    has_body = answer.status not in {_NO_CONTENT, _NOT_MODIFIED}
    lines = [f"HTTP/1.1 {answer.status} {answer.phrase}"]
    lines += [f"{name}: {value}" for name, value in answer.headers.multi_items()]
    if has_body and not any(name in answer.headers for name in _FRAMING):
        lines.append(f"Content-Length: {len(answer.content)}")
    head = "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
    body = answer.content if has_body and method != "HEAD" else b""
    ends = answer.headers.get("connection", "").lower() == "close"
    if answer.cut_after is not None:
        return head + body[: answer.cut_after], True
    return head + body, ends


Decision: TypeAlias = Answer | Failure
Decide: TypeAlias = Callable[[MockRequest], Decision | Callable[[], Decision]]
"""What a request is answered, or what finds that out and may wait."""

_ENDED: Final = Failure("closed", "the mock has ended", is_lasting=True)
_TOO_LARGE: Final = Failure(
    "invalid_request", f"the mock takes no body of more than {size(MAX_BODY_BYTES)}", is_lasting=True
)


class Serving:
    """From its start to its end, connections of engines that were started meanwhile are served here."""

    def __init__(self, decide: Decide) -> None:
        self.network = MockNetwork()
        self.decide = decide
        self.workers = Workers()
        self._connections: set[_Connection] = set()
        self._gone = asyncio.Event()
        self._accepting: set[asyncio.Task[object]] = set()
        self._started = threading.Event()
        self._loop = asyncio.SelectorEventLoop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="headgate-mock", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()
        self._started.wait()

    def stop(self) -> None:
        """Ends what is in flight, and returns when all connections are closed. In a fork: nothing."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join()

    def soon(self, call: Callable[[], None]) -> None:
        """Has this called in the thread. When it has ended: nothing."""
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
        self.workers.close()
        await asyncio.gather(*self._accepting, return_exceptions=True)
        self._gone.clear()
        for connection in list(self._connections):
            connection.end()
        if self._connections:
            await self._gone.wait()

    def met(self, connection: "_Connection") -> None:
        """There is one more connection."""
        self._connections.add(connection)

    def lost(self, connection: "_Connection") -> None:
        """It is closed."""
        self._connections.discard(connection)
        if not self._connections:
            self._gone.set()

    def _accept(self) -> None:
        for native in self.network.take():
            accepted = socket.socket(fileno=native.detach())
            accepted.setblocking(False)  # noqa: FBT003 - it has no name there

            def made(native: MockConnection = native) -> _Connection:
                return _Connection(native, self)

            task = self._loop.create_task(self._loop.connect_accepted_socket(made, accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)


class _Connection(asyncio.Protocol):
    """One connection: a request at a time."""

    def __init__(self, native: MockConnection, serving: Serving) -> None:
        self._native = native
        self._serving = serving
        self._reader = RequestReader(native.origin)
        self._transport: asyncio.Transport | None = None
        self._request: MockRequest | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101 - what sockets have
        self._transport = transport
        self._serving.met(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why the engine has closed it does not matter
        self._transport = None
        self._serving.lost(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self._take()

    def end(self) -> None:
        """The mock ends."""
        if self._request is not None:
            self._fail(_ENDED)
        elif self._transport is not None:
            self._transport.abort()

    def _take(self) -> None:
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
                self._decided(decided)

    def _compute(self, compute: Callable[[], Decision]) -> None:
        def work() -> None:
            decision = compute()
            self._serving.soon(lambda: self._decided(decision))

        self._serving.workers.call(work)

    def _decided(self, decision: Decision) -> None:
        if isinstance(decision, Failure):
            self._fail(decision)
        elif decision.delay_s > 0:
            self._timer = asyncio.get_running_loop().call_later(decision.delay_s, self._answer, decision)
        else:
            self._answer(decision)

    def _answer(self, answer: Answer) -> None:
        if self._transport is None or self._request is None:
            return
        data, ends = answer_bytes(answer, self._request.method)
        self._request = None
        self._transport.write(data)
        if ends:
            self._transport.close()
        else:
            self._take()

    def _fail(self, failure: Failure) -> None:
        if self._transport is not None:
            self._native.fail(failure.kind, failure.message, failure.detail, failure.is_lasting)
            self._transport.abort()
