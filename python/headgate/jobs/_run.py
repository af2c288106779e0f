"""A run of a job or of a retry, from its start to its end."""

import dataclasses
import signal
from collections.abc import Iterable, Sequence
from typing import Final

from headgate import _format, _native
from headgate._errors import Interrupted, JobStopped, NotStarted, OutputError, error_of
from headgate._message import Mention, Spell, as_keyword, spelled
from headgate._summary import Summary
from headgate.jobs import _literals, _proxies, _report
from headgate.jobs._display import Display
from headgate.jobs._interruptible import interruptible
from headgate.jobs._job_options import FetchOptions, RetryOptions
from headgate.jobs._signals import RUNS, RunningJob, Signals
from headgate.jobs._watch import watch

_INSECURE_NOTE: Final = (
    "certificates were not verified (",
    Mention("insecure"),
    "): anyone on the network path could have read and changed all of this",
)


def begin(options: FetchOptions | RetryOptions, received: Signals) -> RunningJob:
    """Starts a run, which is stopped when the process ends.

    Raises:
        HeadgateError: The job could not start.
        NotStarted: A signal ended the start.
    """
    rows = options.rows if isinstance(options, FetchOptions) else None
    if rows is not None:
        rows.start()
    try:
        running = interruptible(
            lambda: _native.Run(options) if isinstance(options, FetchOptions) else _native.Run.retry(options),
            received,
            discard=_native.Run.abort,
        )
    except BaseException:
        if rows is not None:
            rows.close()
        raise
    RUNS.add(running)
    if rows is not None:
        rows.attach(running)
    return running


def run(
    options: FetchOptions | RetryOptions,
    display: Display,
    *,
    signals: Iterable[signal.Signals] = (signal.SIGINT,),
    spell: Spell = as_keyword,
) -> tuple[Summary, signal.Signals | None]:
    """Runs a job to its end.

    Args:
        options: The options, without mistakes.
        display: Shows the progress.
        signals: The signals that stop the run.
        spell: Spells options in messages.

    Returns:
        The summary, and the signal that stopped the run, if one did.

    Raises:
        HeadgateError: The job could not start. After that, its failure is part of the summary.
        NotStarted: A signal ended the start.
    """
    # Handle signals before the start, so that none is lost: requests may be sent before `begin` returns.
    with Signals(signals) as received:
        running = begin(options, received)
        greeting = _report.greeting(Summary.from_json(running.summary(), spell))
        greeting = "\n".join(filter(None, (*_notes_at_start(options, spell), greeting))) or None
        summary = watch(
            running, display, received, shutdown_timeout=options.shutdown_timeout, greeting=greeting, spell=spell
        )
    RUNS.discard(running)
    return with_notes(summary, options, spell), received.first


def run_or_raise(options: FetchOptions | RetryOptions, display: Display) -> Summary:
    """Runs a job to its end, and raises an exception if it ends early.

    Raises:
        HeadgateError: The job could not start, or failed; `summary` has the figures.
        OutputError: The reader of standard output is gone.
        JobStopped: The job stopped itself.
        Interrupted: Ctrl-C was pressed, or the program ends.
        Exception: The rows come from an iterable, which raised this error.
    """
    rows = options.rows if isinstance(options, FetchOptions) else None
    try:
        summary, stopped_by = run(options, display, signals=(signal.SIGINT, signal.SIGTERM))
    except NotStarted as error:
        if error.signal == signal.SIGTERM:
            RUNS.end_process()
        raise
    finally:
        if rows is not None:
            rows.close()
    if rows is not None:
        rows.raise_error()
    if stopped_by == signal.SIGTERM:
        RUNS.end_process()
    if _report.finished_already(summary):
        display.say(_report.report(summary))
    return result_of(summary, is_interrupted=summary.interrupted)


def with_notes(summary: Summary, options: FetchOptions | RetryOptions, spell: Spell = as_keyword) -> Summary:
    """Returns the summary with notes on the options, and on proxies in environment variables."""
    insecure = [spelled(_INSECURE_NOTE, spell)] if options.insecure else []
    more = [*insecure, *_notes_at_start(options, spell)]
    return dataclasses.replace(summary, notes=(*summary.notes, *more)) if more else summary


def _notes_at_start(options: FetchOptions | RetryOptions, spell: Spell) -> Sequence[str]:
    """Returns the notes that are useful before the first request."""
    literals = _literals.notes(options, spell) if isinstance(options, FetchOptions) else ()
    proxies = _proxies.note(options.proxy, spell)
    return [*([] if proxies is None else [proxies]), *literals]


def result_of(summary: Summary, *, is_interrupted: bool) -> Summary:
    """Returns the summary of a run, unless the run ended early.

    Raises:
        HeadgateError: The job failed; `summary` has the figures.
        JobStopped: The job stopped itself.
        Interrupted: A signal or the end of the program stopped it.
    """
    if summary.failure is not None:
        raise error_of(summary.failure.kind, summary.failure.pieces, summary=summary)
    if summary.reader_gone:
        raise OutputError(_report.reader_gone(summary), summary=summary)
    if summary.stopped_by is not None:
        raise JobStopped(summary.stopped_by, summary=summary)
    if is_interrupted:
        advice = "; the same call resumes it" if summary.job is not None and summary.job.resumable else ""
        rows = _format.plural(summary.rows, "row")
        stopped = (
            f"stopped after {rows}, whose results are written"
            if summary.rows
            else "stopped before the first row was done"
        )
        raise Interrupted(stopped + advice, summary=summary)
    return summary
