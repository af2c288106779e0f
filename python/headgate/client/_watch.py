"""Looks at calls whose callers wait: these keep the timeouts of calls, whatever becomes of the requests."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from headgate._native import NativeCall, NativeOutcome
from headgate.client import _log
from headgate.client._request import NativeRequest

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def looked_at(call: NativeCall, request: NativeRequest) -> NativeOutcome | None:
    """Looks at a call. Returns its outcome if a timeout has passed; a long wait is logged, once."""
    outcome, wait = call.look(request)
    if wait is not None:
        _log.waits_long(request, wait)
    return outcome


class CallTimer:
    """A timer of an event loop that looks at a call, each time that it is due."""

    __slots__ = ("_call", "_deliver", "_handle", "_loop", "_request")

    def __init__(
        self,
        loop: "AbstractEventLoop",
        call: NativeCall,
        request: NativeRequest,
        deliver: Callable[[NativeOutcome], None],
    ) -> None:
        """Starts the timer. `deliver` is called with the outcome if a timeout passes."""
        self._loop = loop
        self._call = call
        self._request = request
        self._deliver = deliver
        self._handle = loop.call_later(call.next_look_s, self._look)

    def cancel(self) -> None:
        """Stops the timer. Idempotent."""
        self._handle.cancel()

    def check(self) -> None:
        """Looks at the call if that is due: a virtual clock does not move the timers of the loop, but wakes it."""
        if self._call.next_look_s <= 0:
            self._handle.cancel()
            self._look()

    def _look(self) -> None:
        outcome = looked_at(self._call, self._request)
        if outcome is None:
            self._handle = self._loop.call_later(self._call.next_look_s, self._look)
        else:
            self._deliver(outcome)
