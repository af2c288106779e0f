"""The other end of a mock's connections: one thread that reads requests and writes answers."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Final, TypeAlias

from headgate._format import size
from headgate._native import MockConnection, MockNetwork
from headgate.testing._answer import Answer, Failure
from headgate.testing._mock_request import MockRequest
from headgate.testing._wire import MAX_BODY_BYTES, RequestReader, TooLarge, answer_bytes
from headgate.testing._workers import Workers

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

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - whoever asked has gone, why does not matter
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
