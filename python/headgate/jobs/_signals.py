"""Stops the runs of this process on signals, Ctrl-C and the end of the program."""

import atexit
import os
import signal
import sys
import threading
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Final, Protocol, Self

POLL_S: Final = 0.1
"""How soon a signal or the end of a run is noticed."""


class RunningJob(Protocol):
    """The methods of the engine's `Run` that are needed here."""

    def wait(self, timeout: float) -> bool:
        """Waits for the end; returns whether the run has ended."""
        ...

    def stop(self) -> None:
        """Starts nothing new."""

    def abort(self) -> None:
        """Ends the run now."""

    def set(self, settings: dict[str, str]) -> None:
        """Sets options to these values, as text."""

    def pause(self) -> None:
        """Starts nothing more until `unpause`."""

    def unpause(self) -> None:
        """Continues after `pause`."""

    def snapshot(self) -> str:
        """Returns the progress as JSON."""
        ...

    def summary(self) -> str:
        """Returns the summary as JSON."""
        ...


class Runs:
    """The runs of a process."""

    def __init__(self) -> None:
        self._running: set[RunningJob] = set()
        self._is_ending = False

    def add(self, run: RunningJob) -> None:
        """Adds a run, and removes those that have ended without a waiting caller."""
        for other in list(self._running):
            if other.wait(0):
                self._running.discard(other)
        self._running.add(run)

    def discard(self, run: RunningJob) -> None:
        """Removes a run that has ended; after the last one, SIGTERM gets its default handler back."""
        self._running.discard(run)
        if not self._running and in_main_thread() and signal.getsignal(signal.SIGTERM) == self.receive:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def handle_sigterm(self) -> None:
        """Installs a handler by which SIGTERM stops all runs before it ends the process, unless the program has one."""
        if in_main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self.receive)

    def end_process(self) -> None:
        """Ends the process by SIGTERM, as the sender of one expects, after all runs have ended."""
        self.handle_sigterm()
        os.kill(os.getpid(), signal.SIGTERM)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Handles SIGTERM: the first one stops all runs and waits for them, and a further one aborts them."""
        del number, frame
        if self._is_ending:
            self.abort()
            return
        self._is_ending = True
        self.stop()
        self._wait()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def stop(self) -> None:
        """Stops all runs."""
        for run in list(self._running):
            run.stop()

    def abort(self) -> None:
        """Aborts all runs."""
        for run in list(self._running):
            run.abort()

    def end(self) -> None:
        """Stops all runs, and returns when they have ended; Ctrl-C aborts them."""
        try:
            self.stop()
            self._wait()
        except KeyboardInterrupt:
            self.abort()
            self._wait()

    def clear(self) -> None:
        """Removes all runs after a fork, because they run in the parent process."""
        self._running.clear()

    def _wait(self) -> None:
        for run in list(self._running):
            while not run.wait(POLL_S):
                pass  # Python handles signals between two waits


RUNS: Final = Runs()
atexit.register(RUNS.end)
os.register_at_fork(after_in_child=RUNS.clear)


def in_main_thread() -> bool:
    """Returns whether this is the main thread, which alone may set signal handlers."""
    return threading.current_thread() is threading.main_thread()


class Signals:
    """Counts signals from before the start of a job to its end, and calls its `stop` and `abort`.

    Attributes:
        first: The first signal, if there was one.
        count: The number of signals.
    """

    def __init__(self, numbers: Iterable[signal.Signals] = (signal.SIGINT,)) -> None:
        self._job: RunningJob | None = None
        self._numbers = numbers
        self._previous: dict[signal.Signals, object] = {}
        self.first: signal.Signals | None = None
        self.count = 0

    def stop_on_signal(self, job: RunningJob) -> None:
        """Stops this job on a signal, and at once if one arrived during its start."""
        self._job = job
        if self.count:
            self._act()

    def __enter__(self) -> Self:
        if in_main_thread():
            for number in self._numbers:
                # A signal that is ignored (nohup) or that the program handles keeps its handler.
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler, RUNS.receive):
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # the return value of signal.signal

    def check_main_thread(self) -> None:
        """Stops the job if Ctrl-C has ended the main thread: Python waits for this thread, which gets no signals."""
        if self.count == 0 and not threading.main_thread().is_alive() and _was_interrupted():
            self._receive(signal.SIGINT, None)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        # When a terminal closes, the kernel and the shell both send SIGHUP; the second one is not a request to abort.
        if self.count and number == signal.SIGHUP:
            return
        self.count += 1
        if self.count == 1:
            self.first = signal.Signals(number)
        if number == signal.SIGTERM:
            # The process will end, so other runs have to stop, too.
            RUNS.stop()
        self._act()

    def _act(self) -> None:
        if self._job is None:
            return
        if self.count == 1:
            self._job.stop()
        else:
            self._job.abort()


def _was_interrupted() -> bool:
    """Returns whether the last uncaught exception was Ctrl-C."""
    last: type[BaseException] | None = getattr(sys, "last_type", None)
    return last is not None and issubclass(last, KeyboardInterrupt)
