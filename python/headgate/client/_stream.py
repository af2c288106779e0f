"""A response whose body is read while it arrives, for threads and for event loops."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import (
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from functools import cached_property
from typing import TYPE_CHECKING, AnyStr, NamedTuple, NoReturn

from headgate import _format
from headgate._facts import Fact
from headgate._native import NativeOutcome, ResponseStream
from headgate.client._content import Source
from headgate.client._engine import Engine
from headgate.client._feeder import BodyFeeder, feed_until
from headgate.client._hook_calls import run, run_async
from headgate.client._log import is_observed
from headgate.client._loop_feeder import LoopFeeder
from headgate.client._native_requests import async_observed_native_of, observed_native_of
from headgate.client._open_streams import HeldSlot, OpenStreams
from headgate.client._request import NativeRequest, Request
from headgate.client._response import ErrorFacts, Response, error_from, error_of
from headgate.client._text import Chunks, LineSplitter, TextDecoder
from headgate.client._watch import CallTimer, looked_at
from headgate.jobs._notebook import await_interruptibly

if TYPE_CHECKING:
    from headgate.client._app import ServedApp
    from headgate.client._observer import Observer


class _ClosedStream:
    """Replaces the native stream after it was closed, and keeps the number of received bytes."""

    is_own_process = True
    error = None

    def __init__(self, received_bytes: int) -> None:
        self.received_bytes = received_bytes

    def wait_bytes(self) -> bytes | None:
        """Returns the end of the body."""
        return b""

    def start_body(self, raw: bool) -> None:  # noqa: FBT001 - as in `ResponseStream`
        """Does nothing."""

    def close(self) -> None:
        """Does nothing."""


class _OpenedStream(NamedTuple):
    """A stream of the engine, with what belongs to it.

    Attributes:
        held: The slot that it holds until its body has ended.
        app: The application that responds; reading the body raises its exceptions.
    """

    stream: ResponseStream
    held: HeldSlot
    app: "ServedApp | None"


class Streamed(Response):
    """The base of responses whose body is read while it arrives."""

    def __init__(self, request: Request, native: NativeOutcome, opened: _OpenedStream) -> None:
        super().__init__(request, native)
        self._stream: ResponseStream | _ClosedStream = opened.stream
        self._held = opened.held
        self._app = opened.app
        self._started_at = time.monotonic()
        self._is_begun = False
        self._is_closed = False

    @cached_property
    def content(self) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride] # it is set after it was read
        """The body, after it was read.

        Raises:
            RuntimeError: The body was not read.
        """
        raise RuntimeError("the body of a streamed response was not read: read it whole first, or iterate over it")

    def _encoding_by_mark(self) -> str:
        return super()._encoding_by_mark() if "content" in vars(self) else "utf-8"

    @property
    def num_bytes_downloaded(self) -> int:
        """Bytes of the body that have arrived over the connection, before content encodings are decoded."""
        return self._stream.received_bytes

    @property
    def is_stream_consumed(self) -> bool:
        """Whether reading the body has begun; it can be read only once."""
        return self._is_begun

    @property
    def is_closed(self) -> bool:
        """Whether nothing more arrives: the body has ended, or the block was left."""
        return self._is_closed

    def _begin(self, *, raw: bool) -> None:
        """Begins reading the body.

        Raises:
            RuntimeError: It was read before, the response is closed, or this is a fork.
        """
        if self._is_begun:
            raise RuntimeError("the body of this response was read before: it can be read only once")
        if not self._stream.is_own_process:
            self._raise_forked()
        if self._is_closed:
            self._raise_closed()
        self._is_begun = True
        self._stream.start_body(raw)

    def _piece(self, piece: bytes | None) -> bytes:
        """Checks a piece of the body that has arrived, and returns it; it is empty at the end.

        Raises:
            RequestError: The body is incomplete.
            RuntimeError: The response was closed, or this is a fork.
        """
        if piece is None:
            self._raise_forked()
        if not piece:
            if self._is_closed:
                self._raise_closed()
            error = self._stream.error
            self._close()
            if error is not None:
                if self._app is not None and (raised := self._app.take_exception(error)) is not None:
                    raise raised
                elapsed_s = self.elapsed.total_seconds() + time.monotonic() - self._started_at
                raise error_from(error, ErrorFacts(self.url, self.attempts, elapsed_s, lambda: self.request))
        return piece

    def _close(self) -> None:
        self._is_closed = True
        stream, self._stream = self._stream, _ClosedStream(self._stream.received_bytes)
        stream.close()
        self._held.release()

    def _raise_closed(self) -> NoReturn:
        raise RuntimeError("the response is closed: its body can be read only inside the block of stream()")

    def _raise_forked(self) -> NoReturn:
        raise RuntimeError(
            "this response belongs to the process that made the request: it can't be read in a fork of it"
        )

    def _facts(self) -> Iterator[Fact]:
        yield from self._first_facts()
        yield "body", f"{_format.count(self.num_bytes_downloaded)} bytes have arrived"
        for hop in self.history:
            yield f"{hop.status_code} to", hop.location


class StreamedResponse(Streamed):
    """A response whose body you read while it arrives, from `Client.stream`.

    It has the attributes of a `Response`; `content`, `text` and `json()` work after `read`. The body can be read once,
    and only in the block of `stream`. If it breaks off, iterating yields what has arrived and then raises a
    `RequestError`; the request is not retried. Any thread may read the body, one at a time.

    >>> with client.stream("GET", "/bytes/1000") as response:
    ...     print(response.status_code, response.is_stream_consumed, response.is_closed)
    ...     body = response.read()
    ...     print(len(response.content), response.num_bytes_downloaded, response.encoding)
    200 False False
    1000 1000 utf-8
    """

    __module__ = "headgate"

    def __init__(
        self, request: Request, native: NativeOutcome, opened: _OpenedStream, feeder: BodyFeeder | None = None
    ) -> None:
        super().__init__(request, native, opened)
        # The body of the request, which continues while that of the response is read.
        self._feeder = feeder

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Yields the body, with its content encodings decoded.

        >>> with client.stream("GET", "/hello") as response:
        ...     print(list(response.iter_bytes(chunk_size=8)))
        [b'Hello, W', b'orld!']

        Args:
            chunk_size: Bytes of each piece but the last; `None`: pieces as they arrive.

        Raises:
            RequestError: The body breaks off; each error kind has a class.
            RuntimeError: The body was read before, or the response is closed.
        """
        if "content" in vars(self):
            return self._sized(iter((self.content,)), Chunks(chunk_size, b"".join))
        return self._sized(self._pieces(raw=False), Chunks(chunk_size, b"".join))

    def iter_raw(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """Yields the body as it is sent, without decoding its content encodings. See `iter_bytes`.

        >>> with client.stream("GET", "/encoded/gzip/1000") as response:
        ...     print(len(gzip.decompress(b"".join(response.iter_raw()))))
        1000
        """
        return self._sized(self._pieces(raw=True), Chunks(chunk_size, b"".join))

    def iter_text(self, chunk_size: int | None = None) -> Iterator[str]:
        """Yields the body as text, piece by piece; bytes that can't be decoded become U+FFFD. See `iter_bytes`.

        >>> with client.stream("GET", "/hello") as response:
        ...     print("".join(response.iter_text()))
        Hello, World!

        Args:
            chunk_size: Characters of each piece but the last; `None`: pieces as they arrive.
        """
        return self._sized(self._texts(), Chunks(chunk_size, "".join))

    def _texts(self) -> Iterator[str]:
        text = TextDecoder(self._encoding or self.charset_encoding)
        for piece in self.iter_bytes():
            if read := text.feed(piece):
                yield read
        if read := text.finish():
            yield read

    def iter_lines(self) -> Iterator[str]:
        r"""Yields lines of text, each as soon as it has arrived, without its line ending: `\n`, `\r\n` or `\r`.

        See `iter_bytes`.

        >>> with client.stream("GET", "/base64/b25lCnR3bwo=") as response:
        ...     print(list(response.iter_lines()))
        ['one', 'two']
        """
        lines = LineSplitter()
        for text in self.iter_text():
            yield from lines.feed(text)
        yield from lines.finish()

    def read(self) -> bytes:
        """Waits for the whole body and returns it, also if it was read before. Raises as `iter_bytes`."""
        if "content" not in vars(self):
            self.content = b"".join(self.iter_bytes())
        return self.content

    def close(self) -> None:
        """Ends the exchange, as leaving the block does. Idempotent.

        >>> with client.stream("GET", "/bytes/1000") as response:
        ...     response.close()
        ...     print(response.is_closed)
        True
        """
        self._close()

    def _pieces(self, *, raw: bool) -> Iterator[bytes]:
        self._begin(raw=raw)
        while piece := self._piece(self._next_bytes()):
            yield piece

    def _next_bytes(self) -> bytes | None:
        stream = self._stream
        if self._feeder is None or isinstance(stream, _ClosedStream):
            return stream.wait_bytes()
        return feed_until(self._feeder, stream, stream.try_bytes)

    def _sized(self, pieces: Iterator[AnyStr], chunks: Chunks[AnyStr]) -> Iterator[AnyStr]:
        for piece in pieces:
            yield from chunks.feed(piece)
        yield from chunks.finish()


@contextmanager
def open_stream(engine: Engine, streams: OpenStreams, request: Request) -> Iterator[StreamedResponse]:
    """Sends a request, and yields its response, which is closed when the block is left.

    Raises:
        RequestError: There is no usable response, or the request is invalid.
        RuntimeError: The client is closed.
    """
    observer = _observer_of(engine, request)
    with (
        observer or nullcontext(),
        streams.hold("thread", request) as held,
        engine.request_for_app(observed_native_of(engine, request, observer)) as prepared,
    ):
        native_request, feeder = prepared, None
        if isinstance(prepared.body, Source):
            feeder = BodyFeeder(prepared.body)
            native_request = prepared._replace(body=feeder.stream)
        is_followed = observer is not None and observer.follows_attempts
        stream = engine.native.start_stream(native_request, watched=False, followed=is_followed)
        if stream is None:
            engine.raise_closed()
        try:
            if feeder is None and not is_followed:
                native = stream.wait_headers()
            else:
                native = _headers(stream, native_request, feeder, observer)
            if native is None:
                engine.raise_closed()
            engine.raise_of_app(native)
            error = error_of(request, native)
            if error is not None:
                raise error
            opened = _OpenedStream(stream, held, engine.options.app)
            response = StreamedResponse(request, native, opened, feeder)
            if observer is not None:
                run(observer.response(response))
                observer.finish()
            try:
                yield response
            finally:
                response.close()
        finally:
            stream.close()
            if feeder is not None:
                feeder.close()


def _observer_of(engine: Engine, request: Request) -> "Observer | None":
    if not is_observed(engine.options):
        return None
    from headgate.client._observer import Observer  # noqa: PLC0415 - most clients are not observed

    return Observer(engine.options, request)


def _headers(
    stream: ResponseStream, request: NativeRequest, feeder: BodyFeeder | None, observer: "Observer | None"
) -> NativeOutcome | None:
    """Waits for the response without its body, while the body of the request is fed. The observer gets the attempts."""
    call = stream.call

    def poll() -> NativeOutcome | None:
        headers = stream.try_headers()
        if observer is not None:
            run(observer.attempts(attempt for _, attempt in stream.take_attempts()))
        if headers is None and call is not None and call.next_look_s <= 0:
            return looked_at(call, request)
        return headers

    return feed_until(feeder, stream, poll)


class StreamReader:
    """Waits for the parts of a response through a descriptor that the loop watches."""

    def __init__(self, stream: ResponseStream, feeder: LoopFeeder | None = None) -> None:
        self._stream: ResponseStream | None = stream
        self._feeder = feeder
        self._loop = asyncio.get_running_loop()
        self._has_arrived = asyncio.Event()
        self._loop.add_reader(stream.fileno(), self._on_readable)
        if feeder is not None:
            feeder.begin(self._has_arrived.set)

    def _on_readable(self) -> None:
        if self._stream is not None:
            self._stream.clear_wakeup()
            self._has_arrived.set()
            if self._feeder is not None:
                self._feeder.wake()

    async def headers(
        self, stream: ResponseStream, request: NativeRequest, observer: "Observer | None" = None
    ) -> NativeOutcome:
        """Waits for the response without its body, and returns it. The observer gets the attempts."""
        late: list[NativeOutcome] = []

        def deliver(outcome: NativeOutcome) -> None:
            late.append(outcome)
            self._has_arrived.set()

        call = stream.call
        timer = None if call is None else CallTimer(self._loop, call, request, deliver)
        try:
            while not late:
                self._has_arrived.clear()
                response = stream.try_headers()
                if observer is not None:
                    await run_async(observer.attempts(attempt for _, attempt in stream.take_attempts()))
                if response is not None:
                    return response
                if timer is not None:
                    timer.check()
                if not late:
                    await self._wait()
            return late[0]
        finally:
            if timer is not None:
                timer.cancel()

    async def piece(self) -> bytes | None:
        """Waits for the next piece of the body: it is empty at the end, and `None` in a fork."""
        # Let other tasks run, also when pieces arrive faster than they are read.
        await asyncio.sleep(0)
        while self._stream is not None:
            self._has_arrived.clear()
            piece = self._stream.try_bytes()
            if piece is not None or not self._stream.is_own_process:
                return piece
            await self._wait()
        return b""

    async def _wait(self) -> None:
        await await_interruptibly(self._has_arrived.wait())
        if self._feeder is not None:
            self._feeder.check()

    def close(self) -> None:
        """Stops watching, ends the exchange, and wakes waiting tasks. Idempotent."""
        stream, self._stream = self._stream, None
        if stream is not None and stream.is_own_process:
            self._loop.remove_reader(stream.fileno())
            stream.close()
        self._has_arrived.set()


class AsyncStreamedResponse(Streamed):
    """A response whose body you read while it arrives, from `AsyncClient.stream`.

    It has the attributes of a `Response`; `content`, `text` and `json()` work after `aread`. The body can be read once,
    and only in the block of `stream`. If it breaks off, iterating yields what has arrived and then raises a
    `RequestError`; the request is not retried. One coroutine reads the body, in the loop that opened the block. After
    its `await` was cancelled, an iterator yields nothing more.

    >>> async with client.stream("GET", "/bytes/1000") as response:
    ...     print(response.status_code, response.is_stream_consumed, response.is_closed)
    ...     body = await response.aread()
    ...     print(len(response.content), response.num_bytes_downloaded, response.encoding)
    200 False False
    1000 1000 utf-8
    """

    __module__ = "headgate"

    def __init__(self, request: Request, native: NativeOutcome, opened: _OpenedStream, reader: StreamReader) -> None:
        super().__init__(request, native, opened)
        self._reader = reader

    def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Yields the body, with its content encodings decoded.

        >>> async with client.stream("GET", "/hello") as response:
        ...     print([piece async for piece in response.aiter_bytes(chunk_size=8)])
        [b'Hello, W', b'orld!']

        Args:
            chunk_size: Bytes of each piece but the last; `None`: pieces as they arrive.

        Raises:
            RequestError: The body breaks off; each error kind has a class.
            RuntimeError: The body was read before, or the response is closed.
        """
        return self._sized(
            self._read() if "content" in vars(self) else self._pieces(raw=False), Chunks(chunk_size, b"".join)
        )

    def aiter_raw(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """Yields the body as it is sent, without decoding its content encodings. See `aiter_bytes`.

        >>> async with client.stream("GET", "/encoded/gzip/1000") as response:
        ...     print(len(gzip.decompress(b"".join([piece async for piece in response.aiter_raw()]))))
        1000
        """
        return self._sized(self._pieces(raw=True), Chunks(chunk_size, b"".join))

    def aiter_text(self, chunk_size: int | None = None) -> AsyncIterator[str]:
        """Yields the body as text, piece by piece; bytes that can't be decoded become U+FFFD. See `aiter_bytes`.

        >>> async with client.stream("GET", "/hello") as response:
        ...     print("".join([text async for text in response.aiter_text()]))
        Hello, World!

        Args:
            chunk_size: Characters of each piece but the last; `None`: pieces as they arrive.
        """
        return self._sized(self._texts(), Chunks(chunk_size, "".join))

    async def _texts(self) -> AsyncIterator[str]:
        text = TextDecoder(self._encoding or self.charset_encoding)
        async for piece in self.aiter_bytes():
            if read := text.feed(piece):
                yield read
        if read := text.finish():
            yield read

    async def aiter_lines(self) -> AsyncIterator[str]:
        r"""Yields lines of text, each as soon as it has arrived, without its line ending: `\n`, `\r\n` or `\r`.

        See `aiter_bytes`.

        >>> async with client.stream("GET", "/base64/b25lCnR3bwo=") as response:
        ...     print([line async for line in response.aiter_lines()])
        ['one', 'two']
        """
        lines = LineSplitter()
        async for text in self.aiter_text():
            for line in lines.feed(text):
                yield line
        for line in lines.finish():
            yield line

    async def aread(self) -> bytes:
        """Waits for the whole body and returns it, also if it was read before. Raises as `aiter_bytes`."""
        if "content" not in vars(self):
            self.content = b"".join([piece async for piece in self.aiter_bytes()])
        return self.content

    async def aclose(self) -> None:
        """Ends the exchange, as leaving the block does. Idempotent.

        >>> async with client.stream("GET", "/bytes/1000") as response:
        ...     await response.aclose()
        ...     print(response.is_closed)
        True
        """
        self._close()

    def _close(self) -> None:
        super()._close()
        self._reader.close()

    async def _read(self) -> AsyncIterator[bytes]:
        yield self.content

    async def _pieces(self, *, raw: bool) -> AsyncIterator[bytes]:
        self._begin(raw=raw)
        while piece := self._piece(await self._reader.piece()):
            yield piece

    async def _sized(self, pieces: AsyncIterator[AnyStr], chunks: Chunks[AnyStr]) -> AsyncIterator[AnyStr]:
        async for piece in pieces:
            for sized in chunks.feed(piece):
                yield sized
        for sized in chunks.finish():
            yield sized


@asynccontextmanager
async def open_async_stream(
    engine: Engine, streams: OpenStreams, request: Request
) -> AsyncIterator[AsyncStreamedResponse]:
    """Sends a request, and yields its response, which is closed when the block is left.

    Raises:
        RequestError: There is no usable response, or the request is invalid.
        RuntimeError: The client is closed.
    """
    observer = _observer_of(engine, request)
    async with observer or nullcontext():
        with (
            streams.hold("task", request) as held,
            engine.request_for_app(await async_observed_native_of(engine, request, observer)) as prepared,
        ):
            native_request, feeder = prepared, None
            if isinstance(prepared.body, Source):
                feeder = LoopFeeder(prepared.body)
                native_request = prepared._replace(body=feeder.stream)
            is_followed = observer is not None and observer.follows_attempts
            stream = engine.native.start_stream(native_request, watched=True, followed=is_followed)
            if stream is None:
                engine.raise_closed()
            reader = StreamReader(stream, feeder)
            try:
                native = await reader.headers(stream, native_request, observer if is_followed else None)
                engine.raise_of_app(native)
                error = error_of(request, native)
                if error is not None:
                    raise error
                opened = _OpenedStream(stream, held, engine.options.app)
                response = AsyncStreamedResponse(request, native, opened, reader)
                if observer is not None:
                    await run_async(observer.response(response))
                    observer.finish()
                try:
                    yield response
                finally:
                    await response.aclose()
            finally:
                reader.close()
                if feeder is not None:
                    await feeder.aclose()
