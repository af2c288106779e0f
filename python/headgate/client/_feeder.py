"""Gives the engine the body of a request, piece by piece, in the thread or the loop of the caller."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from inspect import isasyncgen

from headgate._native import NativeOutcome, UploadStream
from headgate.batches._supply import close_source
from headgate.client._content import Source, chunks_of
from headgate.client._engine import Engine
from headgate.client._request import NativeRequest
from headgate.jobs._notebook import await_interruptibly

_END = object()
_MAX_WAIT_S = 3600.0


class BodyFeeder:
    """Reads a source while the engine wants its bytes.

    Attributes:
        stream: The body as the engine takes it.
    """

    def __init__(self, source: Source) -> None:
        self.stream = UploadStream(source.length, source.is_rewindable)
        self.is_async = source.is_async
        self._source = source
        self._pass = -1
        self._pieces: Iterator[object] | AsyncIterator[object] = iter(())
        self._chunks: Iterator[bytes] = iter(())

    def feed(self) -> bool:
        """Reads and passes on the next bytes, if they are wanted. Returns whether they were.

        Raises:
            TypeError: The source yields something else than bytes, or is asynchronous.
            Exception: Whatever reading the source raises.
        """
        number = self._begin()
        if number is None:
            return False
        chunk = next(self._chunks, None)
        while chunk is None and (piece := next(self._pieces, _END)) is not _END:  # type: ignore[arg-type]
            self._chunks = chunks_of(piece)
            chunk = next(self._chunks, None)
        self.stream.push(number, chunk)
        return True

    async def feed_async(self) -> bool:
        """Does the same, also with an asynchronous source."""
        if not self.is_async:
            return self.feed()
        number = self._begin()
        if number is None:
            return False
        chunk = next(self._chunks, None)
        while chunk is None and (piece := await anext(self._pieces, _END)) is not _END:  # type: ignore[arg-type]
            self._chunks = chunks_of(piece)
            chunk = next(self._chunks, None)
        self.stream.push(number, chunk)
        return True

    def close(self) -> None:
        """Stops reading, and closes a generator."""
        pieces, self._pieces = self._pieces, iter(())
        close_source(pieces)

    async def aclose(self) -> None:
        """Stops reading, and closes a generator, which may be asynchronous."""
        pieces = self._pieces
        if isasyncgen(pieces):
            self._pieces = iter(())
            await pieces.aclose()
        else:
            self.close()

    def _begin(self) -> int | None:
        number = self.stream.wanted_pass()
        if number is not None and number != self._pass:
            self._pass, self._chunks = number, iter(())
            self._pieces = self._source.begin_async() if self.is_async else self._source.begin()
        return number


class LoopFeeder:
    """Feeds a body in a task of the running loop.

    Attributes:
        stream: The body as the engine takes it.
    """

    def __init__(self, source: Source) -> None:
        self._feeder = BodyFeeder(source)
        self.stream = self._feeder.stream
        self._may_continue = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self, notify: Callable[[], None]) -> None:
        """Begins to feed. `notify` is called when that has failed; `check` raises the error then."""

        def done(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and task.exception() is not None:
                notify()

        self._task = asyncio.get_running_loop().create_task(self._feed())
        self._task.add_done_callback(done)

    def wake(self) -> None:
        """Continues after the engine has woken the caller."""
        self._may_continue.set()

    def check(self) -> None:
        """Raises the error of the source, if there was one."""
        if self._task is not None and self._task.done() and not self._task.cancelled():
            self._task.result()

    async def aclose(self) -> None:
        """Stops feeding, and waits until the source is closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _feed(self) -> None:
        try:
            while True:
                self._may_continue.clear()
                if await self._feeder.feed_async():
                    # Other tasks run, too, and a response is noticed before all is read.
                    await asyncio.sleep(0)
                else:
                    await self._may_continue.wait()
        finally:
            await self._feeder.aclose()


def send_source(engine: Engine, request: NativeRequest, source: Source) -> NativeOutcome:
    """Sends a request whose body is a source, and waits for its outcome.

    Raises:
        RuntimeError: The client is closed.
        Exception: Whatever reading the source raises.
    """
    completions = engine.native.completion_queue(watched=False)
    feeder = BodyFeeder(source)
    if completions is None or completions.submit(0, [request._replace(body=feeder.stream)]) is None:
        engine.raise_closed()
    try:
        while True:
            arrived, _ = completions.wait_outcomes(1, 0.0 if feeder.feed() else _MAX_WAIT_S)
            if arrived:
                return arrived[0][1]
    except BaseException:
        completions.close()
        raise
    finally:
        feeder.close()


async def send_source_async(engine: Engine, request: NativeRequest, source: Source) -> NativeOutcome:
    """Does the same in an event loop. Cancelling it cancels the exchange."""
    completions = engine.native.completion_queue(watched=True)
    feeder = LoopFeeder(source)
    if completions is None or completions.submit(0, [request._replace(body=feeder.stream)]) is None:
        engine.raise_closed()
    loop = asyncio.get_running_loop()
    has_arrived = asyncio.Event()
    outcomes: list[NativeOutcome] = []

    def take_arrived() -> None:
        outcomes.extend(outcome for _, outcome in completions.try_outcomes(1)[0])
        if outcomes:
            has_arrived.set()
        feeder.wake()

    loop.add_reader(completions.fileno(), take_arrived)
    try:
        take_arrived()
        feeder.begin(has_arrived.set)
        await await_interruptibly(has_arrived.wait())
        if not outcomes:
            feeder.check()
        return outcomes[0]
    except BaseException:
        completions.close()
        raise
    finally:
        loop.remove_reader(completions.fileno())
        await feeder.aclose()
