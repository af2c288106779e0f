"""Many requests through one mailbox, as they are asked for and answered: who waits, and how, is for others."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from headgate import _format
from headgate._native import Answer
from headgate.client._engine import Engine
from headgate.client._outcome import Outcome
from headgate.client._request import Asked, Native, Request
from headgate.client._submitted import Submitted

BATCH: Final = 256
"""Requests that are handed over at once."""
LONGEST_PULL_S: Final = 0.005
"""After that long what has been pulled is handed over, however few."""
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
        self._most: int = 2 * self._concurrency + EXTRA
        self._bytes_each = 0.0
        self._ready_bytes = 0
        self._ordered = ordered
        self._asked: dict[int, Asked] = {}
        self._number = 0
        self._ready: deque[Outcome] = deque()
        self._early: dict[int, Outcome] = {}
        self._next = 0
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
            TypeError: One is no request.
            RuntimeError: The client is closed.
        """
        if not asked:
            return
        native: list[Native] = []
        for one in asked:
            if isinstance(one, str) and not self._base_url:
                native.append(one)
            else:
                native.append(Request.of(one).native(self._base_url))
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
        ahead = max(LEAST_AHEAD, int(AHEAD_BYTES / (self._bytes_each + 1)))
        self._most = self._concurrency + min(self._concurrency + EXTRA, ahead)
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

    def pop(self) -> Outcome | None:
        """The next outcome, if there is one.

        Raises:
            RuntimeError: This is a fork of the process that asks.
        """
        if self._process != self._engine.process:
            raise RuntimeError("these requests belong to the process that asked: they do not go on in a fork of it")
        return self._ready.popleft() if self._ready else None

    def pull(self, source: Iterator[Asked] | None) -> bool:
        """Asks for a batch of what was submitted and of the source. Whether the source has ended.

        Raises:
            Exception: Whatever the source raises; what it gave before is asked for.
        """
        batch: list[Asked] = []
        most = min(BATCH, self.room)
        while self.submitted and len(batch) < most:
            batch.append(self.submitted.popleft())
        ended = source is None
        if source is not None and len(batch) < most:
            now = time.monotonic
            by = now() + LONGEST_PULL_S
            # Asked of every one: where one takes long, those before it do not wait for it.
            for asked in source:
                batch.append(asked)
                if len(batch) >= most or now() > by:
                    break
            else:
                ended = True
        self.feed(batch)
        return ended

    def close(self) -> None:
        """Cancels what is outstanding."""
        if not self.is_closed:
            self.is_closed = True
            self.submitted.close()
            self._ready.clear()
            self._early.clear()
            self._asked.clear()
            self.mailbox.close()
