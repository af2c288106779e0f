"""The loop that stands beside a running job: looks at it, shows it, and stops it when asked to.

Signals do not raise here, they are counted: an exception could come between any two steps and leave the job
running. The first signal stops the job gently, the second at once.
"""

import contextlib
import signal
import threading
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from types import FrameType, TracebackType
from typing import Final, Protocol, Self

from headgate._message import Spell, as_keyword
from headgate._summary import Snapshot, Summary

POLL_S: Final = 0.1
"""How soon a signal or the end of the job is noticed."""

DRAW_EVERY_S: Final = 0.2


class RunningJob(Protocol):
    """The part of the engine's `Job` that is needed here."""

    def wait(self, timeout_s: float) -> bool:
        """Waits for the end; whether it has come."""

    def stop(self) -> None:
        """Starts nothing new."""

    def abort(self) -> None:
        """Ends now."""

    def snapshot(self) -> str:
        """How far it is, as JSON."""

    def summary(self) -> str:
        """What it has done, as JSON."""


class Display(AbstractContextManager["Display"], Protocol):
    """Shows a running job to somebody."""

    def update(self, snapshot: Snapshot) -> None:
        """Shows how far the job is."""

    def say(self, message: str) -> None:
        """Shows a message once."""


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
        # Only the main thread may set handlers; in any other, nobody can press Ctrl-C either.
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                # A signal that is ignored (nohup) or that the program handles itself stays as it is.
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    self._previous[number] = signal.signal(number, self._receive)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # it is what signal.signal gave us

    def _receive(self, number: int, frame: FrameType | None) -> None:
        del frame
        # A terminal that goes away is told twice, by the kernel and by the shell: nobody has asked for haste.
        if self.count and number == signal.SIGHUP:
            return
        self.count += 1
        if self.count == 1:
            self.first = signal.Signals(number)
        self._act()

    def _act(self) -> None:
        if self._job is None:
            return
        if self.count == 1:
            self._job.stop()
        else:
            self._job.abort()


def watch(  # noqa: PLR0913 - what is watched, for whom, what stops it, and how it is said
    job: RunningJob,
    display: Display,
    received: Signals,
    *,
    grace_s: float,
    greeting: str | None = None,
    spell: Spell = as_keyword,
) -> Summary:
    """Waits until the job has ended; the greeting is shown before all else, and sentences spell options so.

    Returns:
        What the job has done.
    """
    try:
        received.pass_on_to(job)
        with display:
            if greeting is not None:
                with contextlib.suppress(OSError):
                    display.say(greeting)
            _follow(job, display, received, grace_s, spell)
            return Summary.from_json(job.summary(), spell)
    except BaseException:
        job.abort()
        raise


def _follow(job: RunningJob, display: Display, received: Signals, grace_s: float, spell: Spell) -> None:
    said = 0
    drawn_at = time.monotonic()
    while not job.wait(POLL_S):
        # Nobody looks any more (the log's pipe is closed, the terminal gone): no reason to lose a job.
        with contextlib.suppress(OSError):
            if received.count > said:
                said = received.count
                display.say(_announcement(received, grace_s))
            if time.monotonic() - drawn_at >= DRAW_EVERY_S:
                drawn_at = time.monotonic()
                display.update(Snapshot.from_json(job.snapshot(), spell))


def _announcement(received: Signals, grace_s: float) -> str:
    if received.count == 1:
        return f"stopping: what is in flight gets up to {grace_s:g} s; interrupt again to end now"
    return "ending now: what was in flight is given up"
