"""Many requests through one mailbox, as they are asked for and answered: who waits, and how, is for others."""

from collections import deque
from collections.abc import Sequence
from typing import Final

from headgate import _format
from headgate._native import Answer
from headgate.client._engine import Engine
from headgate.client._outcome import Outcome
from headgate.client._request import Asked, natives_of
from headgate.client._source import Source
from headgate.client._submitted import Submitted

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
