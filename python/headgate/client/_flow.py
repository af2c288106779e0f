"""Many requests through one completion queue. It never waits: the iterators over it do."""

import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from headgate import _format
from headgate._checks import kind_of
from headgate._errors import HeadgateError
from headgate._format import count
from headgate._native import NativeOutcome, pull
from headgate.batches._supply import close_source
from headgate.client._engine import Engine
from headgate.client._log import is_observed
from headgate.client._native_requests import natives_of
from headgate.client._outcome import Failed, Outcome, Succeeded
from headgate.client._request import Request, RequestLike
from headgate.client._url import text_of

if TYPE_CHECKING:
    from headgate.client._client_options import ClientOptions
    from headgate.client._many_observer import ManyObserver

MAX_PULL_S: Final = 0.005
"""After this time, the requests that have been read are passed on, however few."""


class RequestSource:
    """Reads the requests of an iterable.

    Attributes:
        has_ended: Whether there are no more requests.
        failure: The error that reading them raised. The caller gets it after the outcomes of the earlier requests.
    """

    def __init__(self, requests: Iterable[RequestLike]) -> None:
        check_is_many(requests)
        self._requests: Iterator[RequestLike] = iter(requests)
        self.has_ended = False
        self.failure: Exception | None = None

    def take(self, max_count: int) -> list[RequestLike]:
        """Reads and returns at most `max_count` requests, as many as can be read without a long wait."""
        taken: list[RequestLike] = []
        try:
            self.has_ended = pull(self._requests, taken, max_count, MAX_PULL_S)
        except Exception as error:  # noqa: BLE001 - raised after the outcomes of the earlier requests
            self.failure, self.has_ended = error, True
        return taken

    def cancel(self) -> None:
        """Stops reading, and closes a generator."""
        self.has_ended, self.failure = True, None
        requests, self._requests = self._requests, iter(())
        close_source(requests)


def check_is_many(requests: object) -> None:
    """Raises an error for a single request, which could be mistaken for an iterable of requests.

    Raises:
        TypeError: `requests` is a single request.
    """
    if isinstance(requests, bytes | Mapping | Request) or text_of(requests) is not None:
        raise TypeError(f"many requests are an iterable of them, not {kind_of(requests)}: for one, give a list with it")


SUBMIT_WAITS_AT: Final = 10_000
"""A thread that may wait does so while this many requests are queued."""
MAX_SUBMITTED: Final = 1_000_000
"""The bound of queued requests: a submit that can't wait raises an error."""


class QueueFull(HeadgateError, queue.Full):  # noqa: N818 - as `queue.Full`
    """1,000,000 submitted requests are queued, and this thread can't wait, because it takes the outcomes.

    The request was not accepted: submit it once more when `room` is above 0.

    >>> issubclass(headgate.QueueFull, queue.Full)
    True
    """


class SubmitQueue(deque[RequestLike]):
    """A queue of submitted requests: any thread may add them, and one takes them."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._waiting = 0
        self._is_closed = False

    @property
    def free_slots(self) -> int:
        """The number of requests that can be added without waiting."""
        return max(MAX_SUBMITTED - len(self), 0)

    def put(self, request: RequestLike, *, may_wait: bool) -> None:
        """Adds a request; if `may_wait`, only after the queue is short enough. `close` ends the wait.

        Raises:
            RuntimeError: The queue was closed.
            QueueFull: The queue is full.
        """
        if may_wait and len(self) >= SUBMIT_WAITS_AT:
            self._wait()
        if self._is_closed:
            raise RuntimeError("these requests are closed: no more can be submitted")
        if len(self) >= MAX_SUBMITTED:
            raise QueueFull(
                f"{count(MAX_SUBMITTED)} submitted requests are already waiting: submit again when `room` is above 0"
            )
        self.append(request)

    def popleft(self) -> RequestLike:
        """Removes and returns the oldest request."""
        request = super().popleft()
        if self._waiting and len(self) < SUBMIT_WAITS_AT:
            with self._changed:
                self._changed.notify_all()
        return request

    def close(self) -> None:
        """Accepts no more requests, and drops those in the queue."""
        self._is_closed = True
        with self._changed:
            self.clear()
            self._changed.notify_all()

    def _wait(self) -> None:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._is_closed or len(self) < SUBMIT_WAITS_AT)
            finally:
                self._waiting -= 1


BATCH: Final = 256
"""The number of requests that are passed to the engine at once."""
EXTRA: Final = 1024
"""How many requests may be outstanding beyond twice the concurrency, if bodies are small."""
AHEAD_BYTES: Final = 16 << 20
"""The estimated bytes of bodies of requests that are outstanding beyond the concurrency."""
MIN_AHEAD: Final = 16
"""How many requests may be outstanding beyond the concurrency whatever their size."""
READY_BYTES: Final = 16 << 20
"""With more bytes of bodies in uncollected outcomes, no outcomes are taken until these are collected."""


def _observer_of(options: "ClientOptions") -> "ManyObserver":
    from headgate.client._many_observer import ManyObserver  # noqa: PLC0415 - most clients are not observed

    return ManyObserver(options)


class RequestFlow:
    """The outstanding requests and the outcomes that have arrived. One thread at a time may start and take them."""

    def __init__(self, engine: Engine, *, watched: bool, ordered: bool) -> None:
        completions = engine.native.completion_queue(watched=watched)
        self.completions = completions if completions is not None else engine.raise_closed()
        self.submitted = SubmitQueue()
        self.observer = _observer_of(engine.options) if is_observed(engine.options) else None
        self._engine = engine
        self._process = engine.process
        self._app = engine.options.app
        self._concurrency: int = engine.options.concurrency
        self._memory: int = engine.native.max_memory
        self._max_outstanding: int = self._concurrency if ordered else 2 * self._concurrency + EXTRA
        self._bytes_each = 0.0
        self._ready_bytes = 0
        self._ordered = ordered
        self._in_flight: dict[int, RequestLike] = {}
        self._number = 0
        self._ready: deque[Outcome[Any]] = deque()
        self._early: dict[int, Outcome[Any]] = {}
        self._next = 0
        self.failure: BaseException | None = None
        self.is_closed = False

    @property
    def outstanding(self) -> int:
        """The number of requests whose outcome can't be collected yet."""
        return len(self._in_flight) + len(self._early)

    @property
    def state(self) -> str:
        """The progress in a few words, for `repr`."""
        if self.is_closed:
            return "closed"
        return f"{_format.count(self._number - self.outstanding)} of {_format.count(self._number)} requests done"

    @property
    def free_slots(self) -> int:
        """The number of requests that can be started now."""
        return self._max_outstanding - self.outstanding - len(self._ready)

    @property
    def has_ready(self) -> bool:
        """Whether there is an outcome to collect."""
        return bool(self._ready)

    @property
    def is_full(self) -> bool:
        """Whether outcomes must be collected before more are taken."""
        return self._ready_bytes >= READY_BYTES and bool(self._ready)

    @property
    def has_begun(self) -> bool:
        """Whether a request was started or submitted."""
        return self._number > 0 or bool(self.submitted)

    def feed(self, requests: list[RequestLike]) -> None:
        """Passes requests to the engine.

        Raises:
            RuntimeError: The client is closed.
        """
        if not requests or self.is_closed:
            return
        native = natives_of(requests, self._engine.options)
        number = self._number
        self._number += len(requests)
        is_followed = False
        if self.observer is not None:
            native, is_followed = self.observer.prepare(self._engine.native, number, requests, native)
        self._in_flight.update(zip(range(number, self._number), requests, strict=True))
        if not self.completions.submit(number, native, is_followed):
            self._engine.raise_closed()

    def take_arrived(self, arrived: Sequence[tuple[int, NativeOutcome]], received_bytes: int) -> None:
        """Takes responses that have arrived, whose bodies have `received_bytes` together."""
        if not arrived:
            return
        self._ready_bytes = received_bytes + (self._ready_bytes if self._ready else 0)
        self._bytes_each = (self._bytes_each + received_bytes / len(arrived)) / 2
        self._max_outstanding = self._outstanding_bound()
        for number, response in arrived:
            request = self._in_flight.pop(number, None)
            if request is None:
                continue
            outcome = (Succeeded if response.error is None else Failed)(request, response, number)
            if self.observer is not None:
                self.observer.stop_timing(number)
            if self._app is not None and (error := outcome.error) is not None:
                error.__cause__ = self._app.take_exception(response.error)
            if self._ordered:
                self._early[number] = outcome
            else:
                self._ready.append(outcome)
        while self._ordered and self._next in self._early:
            self._ready.append(self._early.pop(self._next))
            self._next += 1

    def _outstanding_bound(self) -> int:
        """Returns how many requests may be outstanding, from the mean size of bodies."""
        ahead = int(AHEAD_BYTES / (self._bytes_each + 1))
        if not self._ordered:
            return self._concurrency + min(self._concurrency + EXTRA, max(ahead, MIN_AHEAD))
        # The engine's memory budget does not include outcomes that wait for an earlier one, so they have this one.
        within = int(self._memory / (self._bytes_each + 1))
        return max(1, min(self._concurrency + min(self._concurrency + EXTRA, ahead), within))

    def oldest(self) -> Request | None:
        """Returns the oldest request that is in flight or waits for a slot."""
        request = next(iter(self._in_flight.values()), None)
        return None if request is None else Request.of(request)

    def pop(self) -> Outcome[Any] | None:
        """Removes and returns the next outcome, if there is one. Any thread may call this.

        Raises:
            RuntimeError: This is a fork of the process that made the requests.
        """
        if self._process != self._engine.process:
            raise RuntimeError(
                "these requests belong to the process that made them: they can't continue in a fork of it"
            )
        try:
            return self._ready.popleft()
        except IndexError:
            return None

    def put_back(self, outcome: Outcome) -> None:
        """Makes an outcome that was popped the next one."""
        self._ready.appendleft(outcome)

    def pull(self, source: RequestSource | None) -> bool:
        """Starts a batch of submitted requests and of the source. Returns whether the source has ended."""
        batch: list[RequestLike] = []
        max_count = min(BATCH, self.free_slots)
        # Another thread may close the queue, and so empty it, at any time.
        with suppress(IndexError):
            while self.submitted and len(batch) < max_count:
                batch.append(self.submitted.popleft())
        if source is not None and len(batch) < max_count:
            batch += source.take(max_count - len(batch))
            self.failure = source.failure
        self.feed(batch)
        return source is None or source.has_ended

    def cancel(self) -> None:
        """Cancels what is outstanding, from any thread. Idempotent."""
        if not self.is_closed:
            self.is_closed = True
            self.submitted.close()
            self.completions.close()

    def close(self) -> None:
        """Cancels what is outstanding and drops all outcomes, while no other thread uses this. Idempotent."""
        self.cancel()
        self.failure = None
        self._ready.clear()
        self._early.clear()
        self._in_flight.clear()
