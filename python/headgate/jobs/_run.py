"""A run of a job or of a retry, from its start to its end."""

import dataclasses
import os
import signal
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Final

from headgate import _format, _native
from headgate._errors import HeadgateError, Interrupted, JobStopped, NotStarted, OutputError, error_of
from headgate._message import Mention, Spell, as_keyword, spelled
from headgate._summary import Summary
from headgate.jobs import _literals, _proxies, _report
from headgate.jobs._display import Display
from headgate.jobs._events import Event, not_started
from headgate.jobs._interruptible import interruptible
from headgate.jobs._job_options import FetchOptions, RetryOptions
from headgate.jobs._signals import RUNS, RunningJob, Signals
from headgate.jobs._watch import watch

if TYPE_CHECKING:
    from headgate.jobs._metrics import MetricsServer

_INSECURE: Final = (
    "certificates are not verified (",
    Mention("insecure"),
    "): anyone on the network path can read and change what is sent and received",
)
_INSECURE_NOTE: Final = (
    "certificates were not verified (",
    Mention("insecure"),
    "): anyone on the network path could have read and changed all of this",
)


def begin(options: FetchOptions | RetryOptions, received: Signals) -> tuple[RunningJob, "MetricsServer | None"]:
    """Starts a run, which is stopped when the process ends. Returns it with the server of its metrics, if there is one.

    Raises:
        HeadgateError: The job could not start, or its metrics can't be served.
        NotStarted: A signal ended the start.
    """
    metrics = _metrics_server(options.metrics)
    rows = options.rows if isinstance(options, FetchOptions) else None
    try:
        if rows is not None:
            rows.start()
        running = interruptible(
            lambda: _native.Run(options) if isinstance(options, FetchOptions) else _native.Run.retry(options),
            received,
            discard=_native.Run.abort,
        )
    except BaseException:
        if rows is not None:
            rows.close()
        if metrics is not None:
            metrics.close()
        raise
    RUNS.add(running)
    if rows is not None:
        rows.attach(running)
    if metrics is not None:
        metrics.serve(running)
    return running, metrics


def _metrics_server(address: str | None) -> "MetricsServer | None":
    if address is None:
        return None
    from headgate.jobs._metrics import MetricsServer  # noqa: PLC0415 - few need it

    return MetricsServer(address)


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
    try:
        return _run(options, display, signals, spell)
    except (HeadgateError, NotStarted) as error:
        display.say(not_started(error, spell))
        raise


def _run(
    options: FetchOptions | RetryOptions, display: Display, signals: Iterable[signal.Signals], spell: Spell
) -> tuple[Summary, signal.Signals | None]:
    # Handle signals before the start, so that none is lost: requests may be sent before `begin` returns.
    with Signals(signals) as received:
        running, metrics = begin(options, received)
        first = Summary.from_json(running.summary(), spell)
        greeting = _report.greeting(first)
        notes = _notes_at_start(options, spell)
        greetings = [
            _started(options, first, None if metrics is None else metrics.url),
            *(Event(name="note", message=note, level="warning", is_shown=True) for note in notes),
        ]
        if options.insecure:
            # The command line has shown a warning.
            greetings.append(Event(name="note", message=spelled(_INSECURE, spell), level="warning"))
        if first.job is not None and first.job.previous_killed_at is not None:
            greetings.append(_after_kill(first.job.previous_killed_at))
        if greeting is not None and first.job is not None:
            greetings.append(Event(name="resume", message=greeting, fields=asdict(first.job), is_shown=True))
        try:
            summary = watch(
                running, display, received, shutdown_timeout=options.shutdown_timeout, greetings=greetings, spell=spell
            )
        finally:
            if metrics is not None:
                metrics.close()
    RUNS.discard(running)
    return with_notes(summary, options, spell), received.first


def _after_kill(at: datetime) -> Event:
    """Returns the event that the process before this one was killed, which could not log it itself."""
    message = f"the process before this one was killed, or its machine stopped, after {_format.moment(at)}"
    return Event(name="after_kill", message=message, level="warning", fields={"previous_killed_at": at}, is_shown=True)


def _started(options: FetchOptions | RetryOptions, first: Summary, metrics_url: str | None) -> Event:
    """Returns the event of the start of a run."""
    verb = "fetch" if isinstance(options, FetchOptions) else "retry"
    served = "" if metrics_url is None else f"; metrics: {metrics_url}"
    fields = {
        "command": verb,
        "output": options.output,
        "pid": os.getpid(),
        "version": _native.__version__,
        "rows": first.rows_known,
        "rows_before": 0 if first.job is None else first.job.rows_before,
        "concurrency": options.concurrency,
        "metrics": metrics_url,
    }
    message = f"{verb} into {options.output}{served}"
    return Event(name="start", message=message, fields=fields, is_shown=metrics_url is not None)


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
        display.say(Event(name="note", message=_report.report(summary), is_shown=True))
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
