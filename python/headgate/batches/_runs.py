"""The engines and runs that the calls of this process share, with their connections and limits.

A forked process has none of its parent's threads, and locks that these held stay locked. So it creates its own.
"""

import os
from typing import Final
from weakref import WeakKeyDictionary

from headgate import _mocks
from headgate._native import BatchFlow, BatchRuns
from headgate.batches._batch_options import BatchOptions

_OF_PARENTS: Final = list[BatchRuns]()
"""Runs of the parent processes, kept because freeing them would wait for threads that do not exist here."""

_of_process = BatchRuns()
_of_mocks: WeakKeyDictionary[object, BatchRuns] = WeakKeyDictionary()
"""Each mock has its own, so that calls outside of the mock share nothing with it."""


def begin(options: BatchOptions, *, watched: bool = False) -> BatchFlow:
    """Begins a call. `watched` means that an event loop watches its descriptor.

    Raises:
        UsageError: An option has an invalid value.
    """
    mock = _mocks.active()
    runs = _of_process if mock is None else _of_mocks.get(mock) or _of_mocks.setdefault(mock, BatchRuns())
    return runs.start(options, watched)


def check(options: BatchOptions) -> None:
    """Raises the errors that `begin` would raise, and leaves nothing that runs.

    Raises:
        UsageError: An option has an invalid value.
    """
    BatchRuns().start(options, watched=False).close()


def _start_over() -> None:
    global _of_process  # noqa: PLW0603 - each process has one
    _OF_PARENTS.extend((_of_process, *_of_mocks.values()))
    _of_mocks.clear()
    _of_process = BatchRuns()


os.register_at_fork(after_in_child=_start_over)
