"""What stops the runs of this process: signals, Ctrl-C and the end of the program."""

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
        """Remembers a run, and forgets those that have ended and were not waited for."""
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
        """Ends the process by SIGTERM, as its sender expects, when all runs have ended."""
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


class Signals:
    """Counts signals, from before a job is started to its end, and turns them into `stop` and `abort` of it.

    Attributes:
        first: The signal that came first, if one did.
        count: How many came.
    """

    def __init__(self, numbers: Iterable[signal.Signals] = (signal.SIGINT,)) -> None:
        self._job: RunningJob | None = None
        self._numbers = numbers
        self._previous: dict[signal.Signals, object] = {}
        self.first: signal.Signals | None = None
        self.count = 0

    def pass_on_to(self, job: RunningJob) -> None:
        """Stops this job on a signal, and at once if one came while it was being started."""
        self._job = job
        if self.count:
            self._act()

    def __enter__(self) -> Self:
        if in_main_thread():
            for number in self._numbers:
                # A signal that is ignored (nohup) or that the program handles itself stays as it is.
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler, RUNS.receive):
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # it is what signal.signal gave us

    def look(self) -> None:
        """Stops the job if Ctrl-C has ended the main thread: Python waits for this one, which hears no signals."""
        if self.count == 0 and not threading.main_thread().is_alive() and _was_interrupted():
            self._receive(signal.SIGINT, None)

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        # A terminal that goes away is told twice, by the kernel and by the shell: that is no request to hurry.
        if self.count and number == signal.SIGHUP:
            return
        self.count += 1
        if self.count == 1:
            self.first = signal.Signals(number)
        if number == signal.SIGTERM:
            # The process will end: other runs in it have the same time to.
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
