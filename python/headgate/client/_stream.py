"""One response whose body is read while it arrives, for threads and for event loops."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import NoReturn

from headgate import _format
from headgate._facts import Fact
from headgate._native import Answer, ResponseStream
from headgate.client._engine import Engine
from headgate.client._errors import RequestError
from headgate.client._request import Request
from headgate.client._response import Response, error_from, error_of
from headgate.client._text import Lines, Pieces, Text, told_encoding
from headgate.jobs._notebook import in_turns


class OpenStreams:
    """Those of one client, by the thread or task that has opened them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._most: int = engine.options.concurrency
        # Threads and tasks without open streams are not in it.
        self._open: dict[tuple[int, int], int] = {}
        # Of each process: a fork has none of the threads that may hold it.
        self._locks: dict[int, threading.RLock] = {}

    @contextmanager
    def one_more(self, holder: int, of: str) -> Iterator[None]:
        """Counts one more, until the block is left.

        Raises:
            RuntimeError: All that may be open at once are open here.
        """
        holder_here = (self._engine.process, holder)
        with self._lock:
            held = self._open.get(holder_here, 0)
            if held < self._most:
                self._open[holder_here] = held + 1
        if held >= self._most:
            raise RuntimeError(
                f"this {of} has {held} streams open, and the client makes {self._most} requests at a time: another one"
                " would never start; leave the block of one of them first, or give the client a higher concurrency"
            )
        try:
            yield
        finally:
            # Another thread may leave the block than has entered it.
            with self._lock:
                left = self._open[holder_here] - 1
                if left:
                    self._open[holder_here] = left
                else:
                    del self._open[holder_here]

    @property
    def _lock(self) -> "threading.RLock":
        return self._locks.setdefault(self._engine.process, threading.RLock())


class _Gone:
    """What is left of a stream that was closed: how much of it had come."""

    is_here = True
    error = None

    def __init__(self, received: int) -> None:
        self.received = received

    def wait(self) -> bytes | None:
        """The end."""
        return b""

    def begin(self, raw: bool) -> None:  # noqa: FBT001 - as the engine's
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


class Streamed(Response):
    """A response whose body has still to come."""

    def __init__(self, request: Request, answer: Answer, native: ResponseStream) -> None:
        super().__init__(request, answer)
        self._native: ResponseStream | _Gone = native
        self._head_at = time.monotonic()
        self._is_begun = False
        self._is_closed = False

    @cached_property
    def content(self) -> bytes:  # pyright: ignore[reportIncompatibleMethodOverride] # it is set when it was read
        """Its body, when it was read.

        Raises:
            RuntimeError: It was not.
        """
        raise RuntimeError("the body of a streamed response was not read: read it whole first, or iterate over it")

    @property
    def encoding(self) -> str:
        """How its text is encoded: as for a `Response`; a byte order mark is seen when the body was read."""
        # Not remembered before that.
        is_known = "content" in vars(self) or "encoding" in vars(self)
        return super().encoding if is_known else told_encoding(self.headers) or "utf-8"

    @encoding.setter
    def encoding(self, encoding: str) -> None:  # pyright: ignore[reportIncompatibleVariableOverride] # as there
        vars(self)["encoding"] = encoding

    @property
    def num_bytes_downloaded(self) -> int:
        """Bytes of the body that have arrived over the connection, before content codings are undone."""
        return self._native.received

    @property
    def is_stream_consumed(self) -> bool:
        """Whether reading the body has begun: it can be read once."""
        return self._is_begun

    @property
    def is_closed(self) -> bool:
        """Whether nothing more arrives: the body has ended, or the block was left."""
        return self._is_closed

    def _begin(self, *, raw: bool) -> None:
        """The body is taken from now on.

        Raises:
            RuntimeError: It was taken before, or can't be any more.
        """
        if self._is_begun:
            raise RuntimeError("the body of this response was taken already: it comes once")
        if not self._native.is_here:
            self._refuse_fork()
        if self._is_closed:
            self._refuse_closed()
        self._is_begun = True
        self._native.begin(raw)

    def _piece(self, piece: bytes | None) -> bytes:
        """A piece of the body that was waited for; empty: it has ended.

        Raises:
            RequestError: It is not whole.
            RuntimeError: It can't be read any more.
        """
        if piece is None:
            self._refuse_fork()
        if not piece:
            if self._is_closed:
                self._refuse_closed()
            told = self._native.error
            self._close()
            if told is not None:
                raise self._broken(told)
        return piece

    def _broken(self, told: tuple[str, str, str | None]) -> RequestError:
        elapsed_s = self.elapsed.total_seconds() + time.monotonic() - self._head_at
        return error_from(told, url=self.url, attempts=self.attempts, elapsed_s=elapsed_s)

    def _close(self) -> None:
        self._is_closed = True
        native, self._native = self._native, _Gone(self._native.received)
        native.close()

    def _refuse_closed(self) -> NoReturn:
        raise RuntimeError("the response is closed: its body can be taken inside the block of stream() only")

    def _refuse_fork(self) -> NoReturn:
        raise RuntimeError("this response belongs to the process that asked: it does not go on in a fork of it")

    def _facts(self) -> Iterator[Fact]:
        yield from self._head_facts()
        yield "body", f"{_format.count(self.num_bytes_downloaded)} bytes have come"
        for hop in self.history:
            yield f"{hop.status_code} to", hop.location


class StreamedResponse(Streamed):
    """A response whose body you read while it arrives, from `Client.stream`.

    It has all of a `Response`; `content`, `text` and `json()` work after `read`. The body can be read once, and only in
    the block of `stream`. If it breaks off, iterating yields what has arrived and then raises a `RequestError`; the
    request is not retried. Any thread may read the body, one at a time.

    >>> with client.stream("GET", "/bytes/1000") as response:
    ...     print(response.status_code, response.is_stream_consumed, response.is_closed)
    ...     body = response.read()
    ...     print(len(response.content), response.num_bytes_downloaded, response.encoding)
    200 False False
    1000 1000 utf-8
    """

    def iter_bytes(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """The body, with its content codings undone.

        >>> with client.stream("GET", "/hello") as response:
        ...     print(list(response.iter_bytes(chunk_size=8)))
        [b'Hello, W', b'orld!']

        Args:
            chunk_size: Bytes of each piece but the last; `None`: pieces as they arrive.

        Raises:
            RequestError: The body breaks off; each kind of error has a class of its own.
            RuntimeError: It was read before, or the response is closed.
        """
        if "content" in vars(self):
            return self._sized(iter((self.content,)), Pieces(chunk_size))
        return self._sized(self._taken(raw=False), Pieces(chunk_size))

    def iter_raw(self, chunk_size: int | None = None) -> Iterator[bytes]:
        """The body as it is sent, with its content codings left. See `iter_bytes`.

        >>> with client.stream("GET", "/encoded/gzip/1000") as response:
        ...     print(len(gzip.decompress(b"".join(response.iter_raw()))))
        1000
        """
        return self._sized(self._taken(raw=True), Pieces(chunk_size))

    def iter_text(self) -> Iterator[str]:
        """The body as text, piece by piece; what can't be decoded becomes U+FFFD. See `iter_bytes`.

        >>> with client.stream("GET", "/hello") as response:
        ...     print("".join(response.iter_text()))
        Hello, World!
        """
        text = Text(told_encoding(self.headers))
        for piece in self.iter_bytes():
            if read := text.feed(piece):
                yield read
        if read := text.finish():
            yield read

    def iter_lines(self) -> Iterator[str]:
        r"""The body as lines of text, each as soon as it has arrived, without its end: `\n`, `\r\n` or `\r`.

        See `iter_bytes`.

        >>> with client.stream("GET", "/base64/b25lCnR3bwo=") as response:
        ...     print(list(response.iter_lines()))
        ['one', 'two']
        """
        lines = Lines()
        for text in self.iter_text():
            yield from lines.feed(text)
        yield from lines.finish()

    def read(self) -> bytes:
        """Waits for the whole body, which `content` has then. Again: the same. Raises as `iter_bytes`."""
        if "content" not in vars(self):
            self.content = b"".join(self.iter_bytes())
        return self.content

    def close(self) -> None:
        """Ends the exchange where it is, as leaving the block does. Again: nothing.

        >>> with client.stream("GET", "/bytes/1000") as response:
        ...     response.close()
        ...     print(response.is_closed)
        True
        """
        self._close()

    def _taken(self, *, raw: bool) -> Iterator[bytes]:
        self._begin(raw=raw)
        while piece := self._piece(self._native.wait()):
            yield piece

    def _sized(self, taken: Iterator[bytes], pieces: Pieces) -> Iterator[bytes]:
        for piece in taken:
            yield from pieces.feed(piece)
        yield from pieces.finish()


@contextmanager
def open_stream(engine: Engine, streams: OpenStreams, base_url: str, request: Request) -> Iterator[StreamedResponse]:
    """The response to this request, until the block is left.

    Raises:
        RequestError: There is no usable answer.
        RuntimeError: The client is closed, or the thread has as many streams open as there may be.
    """
    with streams.one_more(threading.get_ident(), "thread"):
        native = engine.native.stream(request.native(base_url), watched=False)
        if native is None:
            engine.refuse()
        try:
            answer = native.wait_head()
            if answer is None:
                engine.refuse()
            error = error_of(request, answer)
            if error is not None:
                raise error
            response = StreamedResponse(request, answer, native)
            try:
                yield response
            finally:
                response.close()
        finally:
            native.close()


class _News:
    """Tells a coroutine of what has come, by a descriptor that its loop watches."""

    def __init__(self, native: ResponseStream) -> None:
        self._native: ResponseStream | None = native
        self._loop = asyncio.get_running_loop()
        self._has_come = asyncio.Event()
        self._loop.add_reader(native.fileno(), self._on_readable)

    def _on_readable(self) -> None:
        if self._native is not None:
            self._native.quiet()
            self._has_come.set()

    async def head(self, native: ResponseStream) -> Answer:
        """What has come of the request: its answer, as far as the head."""
        while True:
            self._has_come.clear()
            answer = native.take_head()
            if answer is not None:
                return answer
            await in_turns(self._has_come.wait())

    async def piece(self) -> bytes | None:
        """More of the body; empty: it has ended. `None`: this is a fork."""
        # Other tasks have their turn, too, where pieces come faster than they are taken.
        await asyncio.sleep(0)
        while self._native is not None:
            self._has_come.clear()
            piece = self._native.take()
            if piece is not None or not self._native.is_here:
                return piece
            await in_turns(self._has_come.wait())
        return b""

    def close(self) -> None:
        """Does not watch any more, and ends the exchange. Waiting tasks are woken. Again: nothing."""
        native, self._native = self._native, None
        if native is not None and native.is_here:
            self._loop.remove_reader(native.fileno())
            native.close()
        self._has_come.set()


class AsyncStreamedResponse(Streamed):
    """A response whose body you read while it arrives, from `AsyncClient.stream`.

    It has all of a `Response`; `content`, `text` and `json()` work after `aread`. The body can be read once, and only
    in the block of `stream`. If it breaks off, iterating yields what has arrived and then raises a `RequestError`; the
    request is not retried. One coroutine reads the body, in the loop that opened the block. After its `await` was
    cancelled, an iterator yields nothing more.

    >>> async with client.stream("GET", "/bytes/1000") as response:
    ...     print(response.status_code, response.is_stream_consumed, response.is_closed)
    ...     body = await response.aread()
    ...     print(len(response.content), response.num_bytes_downloaded, response.encoding)
    200 False False
    1000 1000 utf-8
    """

    def __init__(self, request: Request, answer: Answer, native: ResponseStream, news: _News) -> None:
        super().__init__(request, answer, native)
        self._news = news

    def aiter_bytes(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """The body, with its content codings undone.

        >>> async with client.stream("GET", "/hello") as response:
        ...     print([piece async for piece in response.aiter_bytes(chunk_size=8)])
        [b'Hello, W', b'orld!']

        Args:
            chunk_size: Bytes of each piece but the last; `None`: pieces are as they come.

        Raises:
            RequestError: The body is not whole; a class of its own for each kind of error.
            RuntimeError: It was taken before, or the response is closed.
        """
        return self._sized(self._read() if "content" in vars(self) else self._taken(raw=False), Pieces(chunk_size))

    def aiter_raw(self, chunk_size: int | None = None) -> AsyncIterator[bytes]:
        """The body as it is sent, with its content codings left. See `aiter_bytes`.

        >>> async with client.stream("GET", "/encoded/gzip/1000") as response:
        ...     print(len(gzip.decompress(b"".join([piece async for piece in response.aiter_raw()]))))
        1000
        """
        return self._sized(self._taken(raw=True), Pieces(chunk_size))

    async def aiter_text(self) -> AsyncIterator[str]:
        """The body as text, piece by piece; what can't be decoded becomes U+FFFD. See `aiter_bytes`.

        >>> async with client.stream("GET", "/hello") as response:
        ...     print("".join([text async for text in response.aiter_text()]))
        Hello, World!
        """
        text = Text(told_encoding(self.headers))
        async for piece in self.aiter_bytes():
            if read := text.feed(piece):
                yield read
        if read := text.finish():
            yield read

    async def aiter_lines(self) -> AsyncIterator[str]:
        r"""The body as lines of text, each as soon as it has arrived, without its end: `\n`, `\r\n` or `\r`.

        See `aiter_bytes`.

        >>> async with client.stream("GET", "/base64/b25lCnR3bwo=") as response:
        ...     print([line async for line in response.aiter_lines()])
        ['one', 'two']
        """
        lines = Lines()
        async for text in self.aiter_text():
            for line in lines.feed(text):
                yield line
        for line in lines.finish():
            yield line

    async def aread(self) -> bytes:
        """Waits for the whole body, which `content` has then. Again: the same. Raises as `aiter_bytes`."""
        if "content" not in vars(self):
            self.content = b"".join([piece async for piece in self.aiter_bytes()])
        return self.content

    async def aclose(self) -> None:
        """Ends the exchange where it is, as leaving the block does. Again: nothing.

        >>> async with client.stream("GET", "/bytes/1000") as response:
        ...     await response.aclose()
        ...     print(response.is_closed)
        True
        """
        self._close()

    def _close(self) -> None:
        super()._close()
        self._news.close()

    async def _read(self) -> AsyncIterator[bytes]:
        yield self.content

    async def _taken(self, *, raw: bool) -> AsyncIterator[bytes]:
        self._begin(raw=raw)
        while piece := self._piece(await self._news.piece()):
            yield piece

    async def _sized(self, taken: AsyncIterator[bytes], pieces: Pieces) -> AsyncIterator[bytes]:
        async for piece in taken:
            for sized in pieces.feed(piece):
                yield sized
        for sized in pieces.finish():
            yield sized


@asynccontextmanager
async def open_async_stream(
    engine: Engine, streams: OpenStreams, base_url: str, request: Request
) -> AsyncIterator[AsyncStreamedResponse]:
    """The response to this request, until the block is left.

    Raises:
        RequestError: There is no usable answer.
        RuntimeError: The client is closed, or the task has as many streams open as there may be.
    """
    with streams.one_more(id(asyncio.current_task()), "task"):
        native = engine.native.stream(request.native(base_url), watched=True)
        if native is None:
            engine.refuse()
        news = _News(native)
        try:
            answer = await news.head(native)
            error = error_of(request, answer)
            if error is not None:
                raise error
            response = AsyncStreamedResponse(request, answer, native, news)
            try:
                yield response
            finally:
                await response.aclose()
        finally:
            news.close()
