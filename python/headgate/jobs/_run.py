"""One run of a job, new or of failed rows, from its start to its end."""

import dataclasses
import signal
from collections.abc import Iterable
from typing import Final

from headgate import _format
from headgate._errors import Interrupted, OutputError, error_of
from headgate._message import Mention, Spell, as_keyword, spelled
from headgate._native import Run, give_back_large_blocks
from headgate._summary import Summary
from headgate.jobs import _report
from headgate.jobs._job_options import FetchOptions, RetryOptions
from headgate.jobs._watch import Display, Signals, watch

_INSECURE_NOTE: Final = (
    "certificates were not verified (",
    Mention("insecure"),
    "): all of this may have been read and changed on the way",
)


def in_own_process() -> None:
    """To be called before a run, where the process is for that run alone: freed memory goes back to the system."""
    give_back_large_blocks()


def run(
    options: FetchOptions | RetryOptions,
    display: Display,
    *,
    signals: Iterable[signal.Signals] = (signal.SIGINT,),
    spell: Spell = as_keyword,
) -> tuple[Summary, signal.Signals | None]:
    """Runs a job to its end.

    Args:
        options: What to do; without mistakes.
        display: Where to show it.
        signals: Which signals stop it.
        spell: How sentences spell options.

    Returns:
        What was done, and the signal that stopped it, if one did.

    Raises:
        HeadgateError: The job could not start. Once it has, its failure is part of the summary.
    """
    # Before it starts, so that none is lost: servers may be asked before `Run` returns.
    with Signals(signals) as received:
        running = Run(options) if isinstance(options, FetchOptions) else Run.retry(options)
        greeting = _report.greeting(Summary.from_json(running.summary(), spell))
        summary = watch(running, display, received, grace_s=options.grace_s, greeting=greeting, spell=spell)
    if options.insecure:
        summary = dataclasses.replace(summary, notes=(*summary.notes, spelled(_INSECURE_NOTE, spell)))
    return summary, received.first


def run_or_raise(options: FetchOptions | RetryOptions, display: Display) -> Summary:
    """Runs a job to its end, where an end that is none is an exception: for Python.

    Raises:
        HeadgateError: The job could not start, or failed; `summary` says what was done.
        OutputError: Whoever read standard output went away.
        Interrupted: Ctrl-C was pressed.
    """
    summary, stopped_by = run(options, display)
    if _report.finished_already(summary):
        display.say(_report.report(summary))
    if summary.failure is not None:
        raise error_of(summary.failure.kind, summary.failure.pieces, summary=summary)
    if stopped_by is None and summary.reader_gone:
        raise OutputError(_report.reader_gone(summary), summary=summary)
    if stopped_by is not None:
        way_on = "; the same call goes on" if summary.job is not None and summary.job.resumable else ""
        rows = _format.count(summary.rows)
        raise Interrupted(f"stopped after {rows} rows, which are written{way_on}", summary=summary)
    return summary
