"""Many requests through one mailbox, as they are made and answered. It never waits: the iterators over it do."""

import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from headgate import _format
from headgate._checks import kind_of
from headgate._errors import HeadgateError
from headgate._format import count
from headgate._native import Answer
from headgate.batches._supply import close_source
from headgate.client._engine import Engine
from headgate.client._request import Asked, Request, natives_of
from headgate.client._response import Outcome

LONGEST_PULL_S: Final = 0.005
"""After that long what has been read is handed over, however few."""


class Source:
    """The requests of an iterable.

    Attributes:
        has_ended: There are no more.
        failure: What reading them has raised. Those before it are requests like others, so it is raised when they are
            done.
    """

    def __init__(self, requests: Iterable[Asked]) -> None:
        refuse_one(requests)
        self._requests: Iterator[Asked] = iter(requests)
        self.has_ended = False
        self.failure: Exception | None = None

    def take(self, most: int) -> list[Asked]:
        """The next ones, as many as there are without waiting long."""
        taken: list[Asked] = []
        now = time.monotonic
        by = now() + LONGEST_PULL_S
        try:
            # Asked of every one: where one takes long, those before it do not wait for it.
            for asked in self._requests:
                taken.append(asked)
                if len(taken) >= most or now() > by:
                    return taken
        except Exception as error:  # noqa: BLE001 - it is raised when those before it are done
            self.failure = error
        self.has_ended = True
        return taken

    def cancel(self) -> None:
        """Reads no more, and closes a generator."""
        self.has_ended, self.failure = True, None
        requests, self._requests = self._requests, iter(())
        close_source(requests)


def refuse_one(requests: object) -> None:
    """Refuses what is one request, and could be taken for many.

    Raises:
        TypeError: It is one.
    """
    if isinstance(requests, str | bytes | Mapping | Request):
        raise TypeError(f"many requests are an iterable of them, not {kind_of(requests)}: for one, give a list with it")


LONGEST: Final = 10_000
"""A thread that can wait does so while there are so many."""
MAX: Final = 1_000_000
"""There are never more: a submit that can't wait is refused."""


class QueueFull(HeadgateError, queue.Full):  # noqa: N818 - as `queue.Full`
    """1,000,000 submitted requests are already waiting, and this thread can't wait: it is the one that takes outcomes.

    The request was not accepted: keep it, and submit it again when `room` is above 0.

    >>> issubclass(headgate.QueueFull, queue.Full)
    True
    """


class Submitted(deque[Asked]):
    """Any thread may put requests here; one takes them."""

    def __init__(self) -> None:
        super().__init__()
        self._changed = threading.Condition()
        self._waiting = 0
        self._is_closed = False

    @property
    def room(self) -> int:
        """How many more may be put here without waiting."""
        return max(MAX - len(self), 0)

    def put(self, request: Asked, *, waits: bool) -> None:
        """Adds one; `waits`: while there are many. Closing ends the wait.

        Raises:
            RuntimeError: It was closed.
            QueueFull: There is no room.
        """
        if waits and len(self) >= LONGEST:
            self._wait()
        if self._is_closed:
            raise RuntimeError("these requests are closed: no more can be submitted")
        if len(self) >= MAX:
            raise QueueFull(f"{count(MAX)} submitted requests are already waiting: submit again when `room` is above 0")
        self.append(request)

    def popleft(self) -> Asked:
        """The one that waits longest."""
        request = super().popleft()
        if self._waiting and len(self) < LONGEST:
            with self._changed:
                self._changed.notify_all()
        return request

    def close(self) -> None:
        """Takes no more. What waits is dropped."""
        self._is_closed = True
        with self._changed:
            self.clear()
            self._changed.notify_all()

    def _wait(self) -> None:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: self._is_closed or len(self) < LONGEST)
            finally:
                self._waiting -= 1


BATCH: Final = 256
"""Requests that are handed over at once."""
EXTRA: Final = 1024
"""How many may be outstanding beyond twice as many as can be in flight, where bodies are small."""
AHEAD_BYTES: Final = 16 << 20
"""Bodies of what is outstanding beyond as many as can be in flight, going by those before."""
LEAST_AHEAD: Final = 16
"""So many may be outstanding beyond that, whatever their size."""
READY_BYTES: Final = 16 << 20
"""Bodies of outcomes that wait to be given out: with more, no more are taken until these are gone."""


class Flow:
    """What is outstanding, and what has come of it."""

    def __init__(self, engine: Engine, base_url: str, *, watched: bool, ordered: bool) -> None:
        mailbox = engine.native.mailbox(watched=watched)
        self.mailbox = mailbox if mailbox is not None else engine.refuse()
        self.submitted = Submitted()
        self._engine = engine
        self._process = engine.process
        self._base_url = base_url
        self._concurrency: int = engine.options.concurrency
        self._memory: int = engine.native.max_memory_bytes
        self._most: int = self._concurrency if ordered else 2 * self._concurrency + EXTRA
        self._bytes_each = 0.0
        self._ready_bytes = 0
        self._ordered = ordered
        self._asked: dict[int, Asked] = {}
        self._number = 0
        self._ready: deque[Outcome] = deque()
        self._early: dict[int, Outcome] = {}
        self._next = 0
        self.failure: BaseException | None = None
        self.is_closed = False

    @property
    def outstanding(self) -> int:
        """Requests without an outcome that could be given out."""
        return len(self._asked) + len(self._early)

    @property
    def state(self) -> str:
        """How far it is, in words."""
        if self.is_closed:
            return "closed"
        return f"{_format.count(self._number - self.outstanding)} of {_format.count(self._number)} requests done"

    @property
    def room(self) -> int:
        """How many more may be asked for now."""
        return self._most - self.outstanding - len(self._ready)

    @property
    def is_full(self) -> bool:
        """No more is to be taken before outcomes are given out."""
        return self._ready_bytes >= READY_BYTES and bool(self._ready)

    @property
    def has_begun(self) -> bool:
        """Whether anything was asked for, or is to be."""
        return self._number > 0 or bool(self.submitted)

    def feed(self, asked: list[Asked]) -> None:
        """Asks for these.

        Raises:
            RuntimeError: The client is closed.
        """
        if not asked:
            return
        native = natives_of(asked, self._base_url)
        number = self._number
        self._number += len(asked)
        self._asked.update(zip(range(number, self._number), asked, strict=True))
        if self.mailbox.feed(number, native) is None:
            self._engine.refuse()

    def take_in(self, arrived: Sequence[tuple[int, Answer]], body_bytes: int) -> None:
        """Takes what has come, with so many bytes of bodies."""
        if not arrived:
            return
        self._ready_bytes = body_bytes + (self._ready_bytes if self._ready else 0)
        self._bytes_each = (self._bytes_each + body_bytes / len(arrived)) / 2
        self._most = self._room_for_all()
        for number, answer in arrived:
            asked = self._asked.pop(number, None)
            if asked is None:
                continue
            outcome = Outcome(asked, answer)
            if self._ordered:
                self._early[number] = outcome
            else:
                self._ready.append(outcome)
        while self._ordered and self._next in self._early:
            self._ready.append(self._early.pop(self._next))
            self._next += 1

    def _room_for_all(self) -> int:
        """How many may be outstanding, by how large bodies have been."""
        ahead = int(AHEAD_BYTES / (self._bytes_each + 1))
        if not self._ordered:
            return self._concurrency + min(self._concurrency + EXTRA, max(ahead, LEAST_AHEAD))
        # Those that wait for an earlier one are out of the engine's budget, and this is one for them.
        within = int(self._memory / (self._bytes_each + 1))
        return max(1, min(self._concurrency + min(self._concurrency + EXTRA, ahead), within))

    def pop(self) -> Outcome | None:
        """The next outcome, if there is one.

        Raises:
            RuntimeError: This is a fork of the process that asks.
        """
        if self._process != self._engine.process:
            raise RuntimeError("these requests belong to the process that asked: they do not go on in a fork of it")
        return self._ready.popleft() if self._ready else None

    def pull(self, source: Source | None) -> bool:
        """Asks for a batch of what was submitted and of the source. Whether the source has ended."""
        batch: list[Asked] = []
        most = min(BATCH, self.room)
        while self.submitted and len(batch) < most:
            batch.append(self.submitted.popleft())
        if source is not None and len(batch) < most:
            batch += source.take(most - len(batch))
            self.failure = source.failure
        self.feed(batch)
        return source is None or source.has_ended

    def close(self) -> None:
        """Cancels what is outstanding."""
        if not self.is_closed:
            self.is_closed, self.failure = True, None
            self.submitted.close()
            self._ready.clear()
            self._early.clear()
            self._asked.clear()
            self.mailbox.close()
