"""Threads for what users have computed: it may wait, and must hold nobody up."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final

MAX_THREADS: Final = 64
"""Functions that run at once; others wait."""


class Workers:
    """Calls functions, each in a thread, and forgets them if the process ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[Callable[[], None]] = deque()
        self._threads = 0
        self._idle = 0
        self._news = threading.Condition(self._lock)
        self._is_closed = False

    def call(self, work: Callable[[], None]) -> None:
        """Has this called; it must raise nothing."""
        with self._lock:
            self._waiting.append(work)
            starts = self._idle < len(self._waiting) and self._threads < MAX_THREADS
            self._threads += starts
            self._news.notify()
        if starts:
            threading.Thread(target=self._work, name="headgate-mock-answer", daemon=True).start()

    def close(self) -> None:
        """What waits is not called any more; what runs goes on to its end."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()
            self._news.notify_all()

    def _work(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                while not self._waiting and not self._is_closed:
                    self._news.wait()
                self._idle -= 1
                if self._is_closed:
                    return
                work = self._waiting.popleft()
            work()
