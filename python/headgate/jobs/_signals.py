"""What interrupts a run that somebody waits for: signals and, in a thread, the end of the main one by Ctrl-C.

Signals do not raise here, they are counted: an exception could come between any two steps and leave the job
running. The first signal stops the job gently, the second at once.
"""

import signal
import sys
import threading
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Self

from headgate.jobs._process import RUNS, RunningJob, in_main_thread


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
        # A terminal that goes away is told twice, by the kernel and by the shell: nobody has asked for haste.
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
    """Whether the last exception that nobody caught was Ctrl-C."""
    last: type[BaseException] | None = getattr(sys, "last_type", None)
    return last is not None and issubclass(last, KeyboardInterrupt)
