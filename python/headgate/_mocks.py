"""The mock transports that are active in place of the network: `headgate.testing` sets them, engines look them up."""

import os
import threading

_lock = threading.Lock()
_active: list[object] = []
"""The innermost is the last one."""

changes = 0
"""Counts changes of `_active` and forks, after which an engine may not be the right one any more."""


def active() -> object | None:
    """Returns the network of the innermost active mock, if there is one."""
    try:
        return _active[-1]
    except IndexError:
        return None


def begin(network: object) -> None:
    """Activates a mock, in place of the network and of mocks that were activated before."""
    global changes  # noqa: PLW0603 - state of the process
    with _lock:
        _active.append(network)
        changes += 1


def end(network: object) -> None:
    """Deactivates a mock. Idempotent."""
    global changes  # noqa: PLW0603 - as above
    with _lock:
        if any(other is network for other in _active):
            _active[:] = [other for other in _active if other is not network]
            changes += 1


def _after_fork() -> None:
    global _lock, changes  # noqa: PLW0603 - a lock that a thread of the parent held would never be released
    _lock = threading.Lock()
    changes += 1


os.register_at_fork(after_in_child=_after_fork)
