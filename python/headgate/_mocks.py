"""The mock transports that are active in place of the network: `headgate.testing` sets them, engines look them up."""

import os
import threading
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headgate._native import MockNetwork


class Mock(Protocol):
    """A mock of the network."""

    def network_for(self, options: object) -> "MockNetwork":
        """Returns the network for a client or a job with these options."""
        ...


_lock = threading.Lock()
_active: "list[Mock]" = []
"""The innermost is the last one."""

changes = 0
"""Counts changes of `_active` and forks, after which an engine may not be the right one any more."""


def active() -> "Mock | None":
    """Returns the innermost active mock, if there is one."""
    try:
        return _active[-1]
    except IndexError:
        return None


def begin(mock: "Mock") -> None:
    """Activates a mock, in place of the network and of mocks that were activated before."""
    global changes  # noqa: PLW0603 - state of the process
    with _lock:
        _active.append(mock)
        changes += 1


def end(mock: "Mock") -> None:
    """Deactivates a mock. Idempotent."""
    global changes  # noqa: PLW0603 - as above
    with _lock:
        if any(other is mock for other in _active):
            _active[:] = [other for other in _active if other is not mock]
            changes += 1


def _after_fork() -> None:
    global _lock, changes  # noqa: PLW0603 - a lock that a thread of the parent held would never be released
    _lock = threading.Lock()
    changes += 1


os.register_at_fork(after_in_child=_after_fork)
