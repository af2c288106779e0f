"""The loop that waits for a running job, shows its progress, and stops it on signals."""

import contextlib
import time
from contextlib import AbstractContextManager
from typing import Final

from headgate import _format
from headgate._message import Spell, as_keyword
from headgate._summary import MIN_STALL_S, Snapshot, Summary
from headgate.jobs._display import Display
from headgate.jobs._signals import POLL_S, RunningJob, Signals

DRAW_EVERY_S: Final = 0.2


class Observer:
    """Shows the progress of a running job, and announces interrupts."""

    def __init__(
        self,
        job: RunningJob,
        display: Display,
        received: Signals,
        *,
        shutdown_timeout: float,
        spell: Spell = as_keyword,
    ) -> None:
        self._job = job
        self._display = display
        self._received = received
        self._shutdown_timeout = shutdown_timeout
        self._spell = spell
        self._announced = 0
        self._stalled_s = 0.0
        self._drawn_at = time.monotonic()

    def update(self) -> None:
        """Shows the progress if it is due, and announces signals."""
        received = self._received
        received.check_main_thread()
        with _without_display_errors():
            if received.count > self._announced:
                self._announced = received.count
                self._display.say(_announcement(received, self._shutdown_timeout))
            if time.monotonic() - self._drawn_at >= DRAW_EVERY_S:
                self._drawn_at = time.monotonic()
                snapshot = self._snapshot()
                self._show_stalls(snapshot)
                self._display.update(snapshot)

    def _show_stalls(self, snapshot: Snapshot) -> None:
        """Shows a message for each stall, in which the process was stopped."""
        stalled_s = snapshot.stalled_s - self._stalled_s
        self._stalled_s = snapshot.stalled_s
        if stalled_s >= MIN_STALL_S:
            self._display.say(f"the process was stopped for {_format.seconds(stalled_s)}")

    def end(self) -> None:
        """Shows the final progress."""
        with _without_display_errors():
            snapshot = self._snapshot()
            self._show_stalls(snapshot)
            self._display.end(snapshot)

    def _snapshot(self) -> Snapshot:
        return Snapshot.from_json(self._job.snapshot(), self._spell)


def watch(  # noqa: PLR0913 - keywords keep them apart
    job: RunningJob,
    display: Display,
    received: Signals,
    *,
    shutdown_timeout: float,
    greeting: str | None = None,
    spell: Spell = as_keyword,
) -> Summary:
    """Waits until the job has ended. Shows the greeting first; `spell` spells options in messages.

    Returns:
        The summary of the job.
    """
    try:
        received.stop_on_signal(job)
        with display:
            if greeting is not None:
                with _without_display_errors():
                    display.say(greeting)
            observer = Observer(job, display, received, shutdown_timeout=shutdown_timeout, spell=spell)
            while not job.wait(POLL_S):
                observer.update()
            observer.end()
            return Summary.from_json(job.summary(), spell)
    except BaseException:
        job.abort()
        raise


def _without_display_errors() -> AbstractContextManager[None]:
    # A closed terminal or pipe is no reason to lose a job.
    return contextlib.suppress(OSError)


def _announcement(received: Signals, shutdown_timeout: float) -> str:
    if received.count == 1:
        return f"stopping: requests in flight get up to {shutdown_timeout:g} s to finish; interrupt again to end now"
    return "ending now: requests in flight are dropped"
