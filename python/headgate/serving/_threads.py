"""Threads for functions that may block."""

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NoReturn, TypeVar

from headgate._native import Working

T = TypeVar("T")

MAX_THREADS: Final = 64
"""The bound of functions that run at once; more are queued."""


def _raise(error: BaseException) -> NoReturn:
    raise error


class FunctionThreads:
    """Calls functions in daemon threads, which do not delay the end of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Each is called with whether its function is dropped.
        self._queued: deque[Callable[[bool], None]] = deque()
        self._threads = 0
        self._idle = 0
        self._news = threading.Condition(self._lock)
        self._is_closed = False

    async def run(self, function: Callable[[], T]) -> T:
        """Calls a function in a thread, waits, and returns what it returns.

        Raises:
            RuntimeError: This is closed, and the function was not called.
            Exception: Whatever the function raises.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Callable[[], T]] = loop.create_future()

        def finish(outcome: Callable[[], T]) -> None:
            if not future.done():
                future.set_result(outcome)

        def work(is_dropped: bool) -> None:  # noqa: FBT001 - it has no other
            outcome: Callable[[], T] = partial(
                _raise, RuntimeError("the function was not called: its threads were closed")
            )
            if not is_dropped:
                try:
                    result = function()
                    outcome = lambda: result  # noqa: E731 - a result is a function, as an error is one
                except BaseException as error:  # noqa: BLE001 - raised where it is awaited
                    outcome = partial(_raise, error)
            # The loop may have been closed meanwhile.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(finish, outcome)

        working = Working()
        self._queue(work)
        try:
            return (await future)()
        finally:
            working.end()

    def close(self) -> None:
        """Drops queued functions; running ones finish."""
        with self._lock:
            self._is_closed = True
            dropped, self._queued = self._queued, deque()
            self._news.notify_all()
        for work in dropped:
            work(True)  # noqa: FBT003 - it has no keywords

    def _queue(self, work: Callable[[bool], None]) -> None:
        with self._lock:
            is_closed = self._is_closed
            if not is_closed:
                self._queued.append(work)
            starts = self._idle < len(self._queued) and self._threads < MAX_THREADS
            self._threads += starts
            self._news.notify()
        if is_closed:
            work(True)  # noqa: FBT003 - as above
        elif starts:
            threading.Thread(target=self._work, name="headgate-mock-response", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                while not self._queued and not self._is_closed:
                    self._news.wait()
                self._idle -= 1
                if self._is_closed:
                    return
                work = self._queued.popleft()
            work(False)  # noqa: FBT003 - as above
