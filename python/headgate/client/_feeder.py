"""Gives the engine the body of a request, piece by piece, in the caller's thread."""

from collections.abc import AsyncIterator, Callable, Iterator
from inspect import isasyncgen
from typing import TYPE_CHECKING, Final, TypeVar, cast

from headgate._native import CompletionQueue, NativeCall, NativeOutcome, ResponseStream, UploadStream
from headgate.batches._supply import close_source
from headgate.client._content import Source, chunks_of
from headgate.client._engine import Engine
from headgate.client._hook_calls import run
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
        self._sending = 0
        self._pieces: Iterator[object] | AsyncIterator[object] = iter(())
        self._chunks: Iterator[bytes | None] = iter(())

    def feed(self) -> bool:
        """Reads and passes on the next bytes, if they are wanted. Returns whether they were.

        Raises:
            TypeError: The source yields something else than bytes, or is asynchronous.
            Exception: Whatever reading the source raises.
        """
        number = self._begin()
        while number is not None and not self._push_chunk(number):
            self._use(next(self._pieces, _END))  # type: ignore[arg-type]
        return number is not None

    async def feed_async(self) -> bool:
        """Reads and passes on the next bytes as `feed` does, also those of an asynchronous source."""
        if not self.is_async:
            return self.feed()
        number = self._begin()
        while number is not None and not self._push_chunk(number):
            self._use(await anext(self._pieces, _END))  # type: ignore[arg-type]
        return number is not None

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
        if number is not None and number != self._sending:
            self._sending, self._chunks = number, iter(())
            self._pieces = self._source.begin_async() if self.is_async else self._source.begin()
        return number

    def _use(self, piece: object) -> None:
        self._chunks = iter((None,)) if piece is _END else chunks_of(piece)

    def _push_chunk(self, number: int) -> bool:
        """Passes on the next chunk of the piece, or the end of the body. Returns whether there was one."""
        chunk = next(self._chunks, _END)
        if chunk is _END:
            return False
        self.stream.push(number, cast("bytes | None", chunk))
        return True


def feed_until(feeder: BodyFeeder | None, stream: ResponseStream, poll: Callable[[], T | None]) -> T | None:
    """Feeds a body, if there is one, until `poll` returns something of the response. Returns that; `None` in a fork.

    Raises:
        Exception: Whatever reading the source raises.
    """
    while (found := poll()) is None and stream.is_own_process:
        if feeder is None or not feeder.feed():
            stream.wait_wakeup()
    return found


def submit_one(
    engine: Engine, request: NativeRequest, observer: "Observer | None", *, watched: bool
) -> tuple[CompletionQueue, NativeCall]:
    """Submits a request, and returns the call and the completion queue that gets its outcome, and attempts if followed.

    Raises:
        RuntimeError: The client is closed.
    """
    completions = engine.native.completion_queue(watched=watched)
    is_followed = observer is not None and observer.follows_attempts
    call = None if completions is None else completions.submit_call(0, request, is_followed)
    if completions is None or call is None:
        engine.raise_closed()
    return completions, call


def send_in_steps(
    engine: Engine, request: NativeRequest, source: Source | None, observer: "Observer | None" = None
) -> NativeOutcome:
    """Sends a request, and waits for its outcome; meanwhile it feeds the body of a source, and reports attempts.

    Raises:
        RuntimeError: The client is closed.
        Exception: Whatever reading the source raises.
    """
    feeder = None if source is None else BodyFeeder(source)
    if feeder is not None:
        request = request._replace(body=feeder.stream)
    completions, call = submit_one(engine, request, observer, watched=False)
    try:
        while True:
            has_fed = feeder is not None and feeder.feed()
            arrived, _ = completions.wait_outcomes(1, 0.0 if has_fed else call.next_look_s)
            if observer is not None:
                run(observer.attempts(attempt for _, attempt in completions.take_attempts()))
            if arrived:
                return arrived[0][1]
            if call.next_look_s <= 0 and (outcome := looked_at(call, request)) is not None:
                return outcome
    except BaseException:
        completions.close()
        raise
    finally:
        if feeder is not None:
            feeder.close()
