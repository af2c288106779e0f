"""One response of a thread, whose body is taken while it comes."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from headgate.client._encoding import told_encoding
from headgate.client._engine import Engine
from headgate.client._open_streams import OpenStreams
from headgate.client._pieces import Lines, Pieces, Text
from headgate.client._request import Request
from headgate.client._response import error_of
from headgate.client._streamed import Streamed


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
def opened(engine: Engine, streams: OpenStreams, base_url: str, request: Request) -> Iterator[StreamedResponse]:
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
