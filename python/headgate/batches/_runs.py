"""What the calls of this process share: engines with their connections, and runs with their limits.

A process that was forked off has none of the threads of the one before, and what these held locked stays so. It
starts over.
"""

import os
from typing import Final
from weakref import WeakKeyDictionary

from headgate import _mocks
from headgate._native import BatchFlow, BatchRuns
from headgate.batches._batch_options import BatchOptions

_LEFT_BEHIND: Final = list[BatchRuns]()
"""Those of processes before this one: were they freed, it would be waited for threads that are not there."""

_here = BatchRuns()
_of_mocks: WeakKeyDictionary[object, BatchRuns] = WeakKeyDictionary()
"""Each mock has its own: nothing of them is found by calls outside of it."""


def begin(options: BatchOptions, *, watched: bool = False) -> BatchFlow:
    """Begins a call. `watched`: a loop watches its descriptor.

    Raises:
        UsageError: An option can't be.
    """
    mock = _mocks.active()
    runs = _here if mock is None else _of_mocks.get(mock) or _of_mocks.setdefault(mock, BatchRuns())
    return runs.begin(options, watched)


def check(options: BatchOptions) -> None:
    """Finds what `begin` would refuse, and leaves nothing that runs.

    Raises:
        UsageError: An option can't be.
    """
    BatchRuns().begin(options, watched=False).close()


def _start_over() -> None:
    global _here  # noqa: PLW0603 - there is one for each process
    _LEFT_BEHIND.extend((_here, *_of_mocks.values()))
    _of_mocks.clear()
    _here = BatchRuns()


os.register_at_fork(after_in_child=_start_over)
