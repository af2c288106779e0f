"""The bound of open streams: a thread or task that holds all slots of a client can't wait for another one."""

import threading
import time
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from headgate._url_user import without_user
from headgate.client._engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from headgate.client._errors import PoolTimeout
    from headgate.client._request import Request

Kind: TypeAlias = Literal["thread", "task"]

ARRIVAL_S: Final = 0.25
"""The bound of the time in which outcomes arrive of requests that have ended."""


class OpenStreams:
    """Counts the open streams of a client by the thread or task that opened them.

    Attributes:
        engine: The engine of the client.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine: Engine = engine
        self._max_open: int = engine.options.concurrency
        # It has no entries for threads and tasks without open streams.
        self._open: dict[tuple[int, int], int] = {}
        # One for each process, because a fork has none of the threads that may hold the parent's.
        self._locks: dict[int, threading.RLock] = {}

    def hold(self, kind: Kind, request: "Request") -> "HeldSlot":
        """Counts one more stream of this thread or task, until the slot is released, or its block is left.

        Raises:
            PoolTimeout: It has as many streams open as the client makes requests at a time.
        """
        holder = self._holder(kind)
        with self._lock:
            open_here = self._open.get(holder, 0)
            if open_here < self._max_open:
                self._open[holder] = open_here + 1
        if open_here >= self._max_open:
            raise self._refusal(kind, open_here, request)
        return HeldSlot(self, holder)

    def check(self, kind: Kind, request: "Request | None") -> None:
        """Checks that a call of this thread or task can have a slot.

        Raises:
            PoolTimeout: It has as many streams open as the client makes requests at a time.
        """
        if self._open and self.has_all(kind):  # most clients have no open streams
            raise self._refusal(kind, self._max_open, request)

    def has_all(self, kind: Kind) -> bool:
        """Returns whether this thread or task has as many streams open as the client makes requests at a time."""
        return bool(self._open) and self._open.get(self._holder(kind), 0) >= self._max_open

    def release(self, holder: tuple[int, int]) -> None:
        """Counts one stream less."""
        # The thread that closes the stream may not be the one that opened it.
        with self._lock:
            remaining = self._open[holder] - 1
            if remaining:
                self._open[holder] = remaining
            else:
                del self._open[holder]

    def _holder(self, kind: Kind) -> tuple[int, int]:
        if kind == "thread":
            return self.engine.process, threading.get_ident()
        import asyncio  # noqa: PLC0415 - a client for threads doesn't need it

        return self.engine.process, id(asyncio.current_task())

    def _refusal(self, kind: Kind, open_here: int, request: "Request | None") -> "PoolTimeout":
        from headgate.client._errors import PoolTimeout  # noqa: PLC0415 - creating a client doesn't need it
        from headgate.client._sent_request import unsent_request  # noqa: PLC0415 - as above

        url, sent = ("", None) if request is None else (request.url, unsent_request(self.engine, request))
        prefix = f"{without_user(url)}: " if url else ""
        counts = ((open_here, "stream"), (self._max_open, "request"))
        streams, requests = (f"{count} {of}{'s' * (count != 1)}" for count, of in counts)
        return PoolTimeout(
            f"{prefix}this {kind} has {streams} open, and the client makes {requests} at a time: another"
            " one would never start; read the body of one to its end, leave its block, or give the client a higher"
            " concurrency",
            url=url,
            request=sent,
        )

    @property
    def _lock(self) -> "threading.RLock":
        return self._locks.setdefault(self.engine.process, threading.RLock())


class WaitCheck:
    """Ends the wait of a thread or task for requests that can't start, because it holds all slots."""

    def __init__(self, streams: OpenStreams, kind: Kind) -> None:
        self._streams = streams
        self._kind: Final[Kind] = kind
        self._since: float | None = None

    def max_wait_s(self, wait_s: float) -> float:
        """Returns how long to wait until the next check."""
        return min(wait_s, ARRIVAL_S) if self._streams.has_all(self._kind) else wait_s

    def check(self, has_news: bool, oldest: "Callable[[], Request | None]" = lambda: None) -> None:  # noqa: FBT001 - it has no other
        """Checks the wait after a part of it, which may have brought news. `oldest` returns the oldest request.

        Raises:
            PoolTimeout: The thread or task holds all slots, and what had ended before has arrived.
        """
        if has_news or not self._streams.has_all(self._kind):
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since >= ARRIVAL_S:
            self._streams.check(self._kind, oldest())


class HeldSlot:
    """The slot of an open stream."""

    def __init__(self, streams: OpenStreams, holder: tuple[int, int]) -> None:
        self._streams: OpenStreams | None = streams
        self._holder: Final = holder

    def release(self) -> None:
        """Releases the slot. Idempotent."""
        streams, self._streams = self._streams, None
        if streams is not None:
            streams.release(self._holder)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
