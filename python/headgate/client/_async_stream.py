"""One response of a coroutine, whose body is taken while it comes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headgate._native import Answer, ResponseStream
from headgate.client._encoding import told_encoding
from headgate.client._engine import Engine
from headgate.client._open_streams import OpenStreams
from headgate.client._pieces import Lines, Pieces, Text
from headgate.client._request import Request
from headgate.client._response import error_of
from headgate.client._streamed import Streamed
from headgate.jobs._notebook import in_turns


class _News:
    """Tells a coroutine of what has come, by a descriptor that its loop watches."""

    def __init__(self, native: ResponseStream) -> None:
        self._native: ResponseStream | None = native
        self._loop = asyncio.get_running_loop()
        self._has_come = asyncio.Event()
        self._loop.add_reader(native.fileno(), self._rung)

    def _rung(self) -> None:
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
        # Others of the loop have their turn, too, where pieces come faster than they are taken.
        await asyncio.sleep(0)
        while self._native is not None:
            self._has_come.clear()
            piece = self._native.take()
            if piece is not None or not self._native.is_here:
                return piece
            await in_turns(self._has_come.wait())
        return b""

    def close(self) -> None:
        """Does not watch any more, and ends the exchange. Who waits is woken. Again: nothing."""
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
async def opened(
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
