"""Gives the engine the body of a request, piece by piece, in the caller's thread."""

from collections.abc import AsyncIterator, Callable, Iterator
from inspect import isasyncgen
from typing import TYPE_CHECKING, Final, TypeVar

from headgate._native import NativeOutcome, ResponseStream, UploadStream
from headgate.batches._supply import close_source
from headgate.client._content import Source, chunks_of
from headgate.client._engine import Engine
from headgate.client._request import NativeRequest
from headgate.client._watch import looked_at

if TYPE_CHECKING:
    from headgate.client._observer import Observer

T = TypeVar("T")

_END: Final = object()


class BodyFeeder:
    """Reads a source while the engine wants its bytes.

    Attributes:
        stream: The body as the engine takes it.
    """

    def __init__(self, source: Source) -> None:
        self.stream: UploadStream = UploadStream(source.length, source.is_rewindable)
        self.is_async: bool = source.is_async
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
        number = self.stream.wanted_sending()
        if number is not None and number != self._pass:
            self._pass, self._chunks = number, iter(())
            self._pieces = self._source.begin_async() if self.is_async else self._source.begin()
        return number


def feed_until(feeder: BodyFeeder | None, stream: ResponseStream, take: Callable[[], T | None]) -> T | None:
    """Feeds a body, if there is one, until `take` returns something of the response. Returns that; `None` in a fork.

    Raises:
        Exception: Whatever reading the source raises.
    """
    while (taken := take()) is None and stream.is_own_process:
        if feeder is None or not feeder.feed():
            stream.wait_wakeup()
    return taken


def send_source(
    engine: Engine, request: NativeRequest, source: Source, observer: "Observer | None" = None
) -> NativeOutcome:
    """Sends a request whose body is a source, and waits for its outcome. The observer gets its attempts.

    Raises:
        RuntimeError: The client is closed.
        Exception: Whatever reading the source raises.
    """
    completions = engine.native.completion_queue(watched=False)
    feeder = BodyFeeder(source)
    request = request._replace(body=feeder.stream)
    is_followed = observer is not None and observer.follows_attempts
    call = None if completions is None else completions.submit_call(0, request, is_followed)
    if completions is None or call is None:
        engine.raise_closed()
    try:
        while True:
            arrived, _ = completions.wait_outcomes(1, 0.0 if feeder.feed() else call.next_look_s)
            if observer is not None:
                observer.report_attempts(attempt for _, attempt in completions.take_attempts())
            if arrived:
                return arrived[0][1]
            if call.next_look_s <= 0 and (outcome := looked_at(call, request)) is not None:
                return outcome
    except BaseException:
        completions.close()
        raise
    finally:
        feeder.close()
