"""The bound of open streams: a thread or task that holds all slots of a client can't wait for another one."""

import threading
from typing import TYPE_CHECKING, Final, Literal, Self, TypeAlias

from headgate._url_user import without_user
from headgate.client._engine import Engine

if TYPE_CHECKING:
    from headgate.client._errors import PoolTimeout

Kind: TypeAlias = Literal["thread", "task"]


class OpenStreams:
    """Counts the open streams of a client by the thread or task that opened them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._max_open: int = engine.options.concurrency
        # It has no entries for threads and tasks without open streams.
        self._open: dict[tuple[int, int], int] = {}
        # One for each process, because a fork has none of the threads that may hold the parent's.
        self._locks: dict[int, threading.RLock] = {}

    def hold(self, kind: Kind, url: str) -> "HeldSlot":
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
            raise self._refusal(kind, open_here, url)
        return HeldSlot(self, holder)

    def check(self, kind: Kind, url: str) -> None:
        """Checks that a call of this thread or task can have a slot.

        Raises:
            PoolTimeout: It has as many streams open as the client makes requests at a time.
        """
        if self._open and (open_here := self._open.get(self._holder(kind), 0)) >= self._max_open:
            raise self._refusal(kind, open_here, url)

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
            return self._engine.process, threading.get_ident()
        import asyncio  # noqa: PLC0415 - a client for threads doesn't need it

        return self._engine.process, id(asyncio.current_task())

    def _refusal(self, kind: Kind, open_here: int, url: str) -> "PoolTimeout":
        from headgate.client._errors import PoolTimeout  # noqa: PLC0415 - creating a client doesn't need it

        counts = ((open_here, "stream"), (self._max_open, "request"))
        streams, requests = (f"{count} {of}{'s' * (count != 1)}" for count, of in counts)
        return PoolTimeout(
            f"{without_user(url)}: this {kind} has {streams} open, and the client makes {requests} at a time: another"
            " one would never start; read the body of one to its end, leave its block, or give the client a higher"
            " concurrency",
            url=url,
        )

    @property
    def _lock(self) -> "threading.RLock":
        return self._locks.setdefault(self._engine.process, threading.RLock())


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
