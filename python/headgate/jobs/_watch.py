"""The loop that waits for a running job, shows its progress, and stops it on signals."""

import contextlib
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final

from headgate._message import Spell, as_keyword
from headgate._summary import Snapshot, Summary
from headgate.jobs._display import Display
from headgate.jobs._events import Event, Events, ended
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
        self._is_stopped = False
        self._announced = 0
        self._drawn_at = time.monotonic()
        self._events = Events(self._snapshot())

    def update(self) -> None:
        """Shows the progress if it is due, and announces signals."""
        self._received.check_main_thread()
        with _without_display_errors():
            self._announce()
            if time.monotonic() - self._drawn_at >= DRAW_EVERY_S:
                self._drawn_at = time.monotonic()
                snapshot = self._snapshot()
                self._show_events(snapshot)
                self._display.update(snapshot)

    def _announce(self, *, is_shown: bool = True) -> None:
        """Announces the signals that have come since the last time."""
        received = self._received
        if received.count > self._announced:
            self._announced = received.count
            event = _announcement(received, self._shutdown_timeout, self._snapshot().in_flight)
            self._display.say(replace(event, is_shown=is_shown))
            self._is_stopped = True

    def _show_events(self, snapshot: Snapshot, *, is_ended: bool = False) -> None:
        """Shows what happened since the last snapshot. A stop that a signal caused is announced instead."""
        # The signal may have come since, and the job may have ended at once: then only the log has it.
        self._announce(is_shown=not is_ended)
        for event in self._events.until(snapshot):
            if event.name != "stop" or not self._is_stopped:
                self._display.say(event)

    def end(self) -> None:
        """Shows the final progress."""
        with _without_display_errors():
            snapshot = self._snapshot()
            self._show_events(snapshot, is_ended=True)
            self._display.end(snapshot)

    def _snapshot(self) -> Snapshot:
        return Snapshot.from_json(self._job.snapshot(), self._spell)


def watch(  # noqa: PLR0913 - keywords keep them apart
    job: RunningJob,
    display: Display,
    received: Signals,
    *,
    shutdown_timeout: float,
    greetings: Sequence[Event] = (),
    spell: Spell = as_keyword,
) -> Summary:
    """Waits until the job has ended. Shows the greetings first; `spell` spells options in messages.

    Returns:
        The summary of the job.
    """
    try:
        received.stop_on_signal(job)
        with display:
            for greeting in greetings:
                with _without_display_errors():
                    display.say(greeting)
            observer = Observer(job, display, received, shutdown_timeout=shutdown_timeout, spell=spell)
            while not job.wait(POLL_S):
                observer.update()
            observer.end()
            summary = Summary.from_json(job.summary(), spell)
            with _without_display_errors():
                display.say(ended(summary))
            return summary
    except BaseException:
        job.abort()
        raise


def _without_display_errors() -> AbstractContextManager[None]:
    # A closed terminal or pipe is no reason to lose a job.
    return contextlib.suppress(OSError)


def _announcement(received: Signals, shutdown_timeout: float, in_flight: int) -> Event:
    if received.count == 1:
        what = f": requests in flight get up to {shutdown_timeout:g} s to finish" if in_flight else ""
        message = f"stopping{what}; interrupt again to end now"
    else:
        message = "ending now" + (": requests in flight are dropped" if in_flight else "")
    fields = {} if received.first is None else {"signal": received.first.name}
    return Event(name="stop", message=message, level="warning", fields=fields, is_shown=True)
