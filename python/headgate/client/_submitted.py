"""What was submitted, and is not asked for yet."""

import queue
import threading
from collections import deque
from typing import Final

from headgate._errors import HeadgateError
from headgate._format import count
from headgate.client._request import Asked

LONGEST: Final = 10_000
"""Who can wait does so while there are so many."""
MAX: Final = 1_000_000
"""There are never more: who can't wait is refused."""


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
        """How many may be put here by who does not wait."""
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
