"""The runs of this process: what is told to end, or ends, stops them first and waits until their results are written.

Runs are known here from their start until somebody sees that they have ended. Nothing is locked: a signal handler may
come between any two steps of the main thread.
"""

import atexit
import os
import signal
import threading
from types import FrameType
from typing import Final, Protocol

POLL_S: Final = 0.1
"""How soon a signal or the end of a run is noticed."""


class RunningJob(Protocol):
    """The part of the engine's `Run` that is needed here."""

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end; whether it has come."""
        ...

    def stop(self) -> None:
        """Starts nothing new."""

    def abort(self) -> None:
        """Ends now."""

    def set(self, settings: dict[str, str]) -> None:
        """Changes options, by their names, to these values as text."""

    def pause(self) -> None:
        """Starts nothing more for now."""

    def unpause(self) -> None:
        """Goes on."""

    def snapshot(self) -> str:
        """How far it is, as JSON."""
        ...

    def summary(self) -> str:
        """What it has done, as JSON."""
        ...


class Runs:
    """The runs of a process."""

    def __init__(self) -> None:
        self._running: set[RunningJob] = set()
        self._is_told_to_end = False

    def add(self, run: RunningJob) -> None:
        """Remembers a run, and forgets those that have ended without anybody waiting for them."""
        for other in list(self._running):
            if other.wait(0):
                self._running.discard(other)
        self._running.add(run)

    def discard(self, run: RunningJob) -> None:
        """Forgets a run that has ended; after the last one, SIGTERM is what it was."""
        self._running.discard(run)
        if not self._running and in_main_thread() and signal.getsignal(signal.SIGTERM) == self.receive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def take_sigterm(self) -> None:
        """From now on SIGTERM stops all runs before it ends the process. A handler of the program's own stays."""
        if in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.receive)

    def end_process(self) -> None:
        """Ends the process by SIGTERM, as whoever sent that expects, when all runs have ended."""
        self.take_sigterm()
        os.kill(os.getpid(), signal.SIGTERM)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGTERM: the first stops all runs and waits for them, another one ends them now."""
        del number, frame
        if self._is_told_to_end:
            self.abort()
            return
        self._is_told_to_end = True
        self.stop()
        self._wait()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def stop(self) -> None:
        """Stops all gently."""
        for run in list(self._running):
            run.stop()

    def abort(self) -> None:
        """Stops all at once."""
        for run in list(self._running):
            run.abort()

    def end(self) -> None:
        """Stops all, and returns when they have ended; Ctrl-C ends them now."""
        try:
            self.stop()
            self._wait()
        except KeyboardInterrupt:
            self.abort()
            self._wait()

    def forget(self) -> None:
        """After a fork: they run in the parent process, and not in this one."""
        self._running.clear()

    def _wait(self) -> None:
        for run in list(self._running):
            while not run.wait(POLL_S):
                pass  # between two waits, signals are handled


RUNS: Final = Runs()
atexit.register(RUNS.end)
os.register_at_fork(after_in_child=RUNS.forget)


def in_main_thread() -> bool:
    """Whether this is the only thread that may set signal handlers."""
    return threading.current_thread() is threading.main_thread()
