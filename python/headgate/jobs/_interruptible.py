"""Calls of the engine that can block for ever, in a thread of their own: the main thread alone handles signals.

The start of a job opens files, and one of these may be a named pipe without a writer.
"""

import threading
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from headgate._errors import NotStarted
from headgate.jobs._signals import POLL_S, Signals, in_main_thread

_T = TypeVar("_T")

_GRACE_S: Final = 1.0
"""The time that a call gets to return after the first signal."""


def interruptible(
    call: Callable[[], _T], received: Signals | None = None, *, discard: Callable[[_T], object] = lambda _: None
) -> _T:
    """Returns the result of a call, unless a signal ends the wait for it.

    Args:
        call: The call, which goes on after a signal, in a daemon thread.
        received: The signals that end the wait, a moment after the first or at once after the second. Without it, a
            signal handler ends the wait by an exception, as that for Ctrl-C does.
        discard: Takes the result of a call that was abandoned.

    Raises:
        NotStarted: A signal was received, and the call has not returned.
    """
    if not in_main_thread():
        return call()
    calling = _Calling(call, discard)
    thread = threading.Thread(target=calling.run, name="headgate-start", daemon=True)
    thread.start()
    try:
        _wait(thread, received)
    except BaseException:
        calling.abandon()
        raise
    return calling.result()


def _wait(thread: threading.Thread, received: Signals | None) -> None:
    """Waits for the end of a thread, or for signals.

    Raises:
        NotStarted: As `interruptible`.
    """
    signalled: float | None = None
    while thread.is_alive():
        thread.join(POLL_S)
        if received is None or received.first is None or not thread.is_alive():
            continue
        signalled = signalled or time.monotonic()
        if received.count > 1 or time.monotonic() - signalled > _GRACE_S:
            raise NotStarted(received.first)


class _Calling(Generic[_T]):
    """A call in another thread."""

    def __init__(self, call: Callable[[], _T], discard: Callable[[_T], object]) -> None:
        self._call = call
        self._discard = discard
        self._lock = threading.Lock()
        self._results: list[_T] = []
        self._error: BaseException | None = None
        self._is_abandoned = False

    def run(self) -> None:
        try:
            result = self._call()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread of the caller
            self._error = error
            return
        with self._lock:
            self._results.append(result)
            is_abandoned = self._is_abandoned
        if is_abandoned:
            self._discard(result)

    def abandon(self) -> None:
        with self._lock:
            self._is_abandoned = True
            results = list(self._results)
        for result in results:
            self._discard(result)

    def result(self) -> _T:
        if self._error is not None:
            raise self._error
        return self._results[0]
