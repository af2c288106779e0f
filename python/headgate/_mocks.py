"""Which mock transport answers in place of the network, if any: `headgate.testing` sets it, engines look it up."""

import os
import threading

_lock = threading.Lock()
_active: list[object] = []
"""The innermost is the last one."""

changes = 0
"""Goes up when that changes, and in each fork: an engine that was started before is then not the right one, perhaps."""


def active() -> object | None:
    """The engine's own end of the mock that is in force."""
    try:
        return _active[-1]
    except IndexError:
        return None


def begin(network: object) -> None:
    """From now on, this answers in place of the network and of mocks that began before."""
    global changes  # noqa: PLW0603 - it is about the process
    with _lock:
        _active.append(network)
        changes += 1


def end(network: object) -> None:
    """From now on it doesn't. Again: nothing."""
    global changes  # noqa: PLW0603 - as above
    with _lock:
        if any(other is network for other in _active):
            _active[:] = [other for other in _active if other is not network]
            changes += 1


def _after_fork() -> None:
    global _lock, changes  # noqa: PLW0603 - what the parent's threads held is held for ever
    _lock = threading.Lock()
    changes += 1


os.register_at_fork(after_in_child=_after_fork)
