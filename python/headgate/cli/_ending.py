"""Runs a job on the command line, and reports its end: in words, in a file, and by the exit code."""

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate._errors import HeadgateError, NotStarted
from headgate.cli._exit_codes import (
    EXIT_ERROR,
    EXIT_FAILED_ROWS,
    EXIT_JOB_STOPPED,
    EXIT_OK,
    EXIT_READER_GONE,
    EXIT_SIGNALLED,
    EXIT_USAGE,
    not_started_code,
)
from headgate.cli._values import CommandLineError
from headgate.cli._wrapping import fitted
from headgate.jobs._as_flag import as_flag
from headgate.jobs._option_entry import STANDARD_STREAM

if TYPE_CHECKING:
    from headgate._summary import Summary
    from headgate.cli import _fetch_flags, _retry_flags

    Command = _fetch_flags.Command | _retry_flags.Command

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that stop a job in order: Ctrl-C, SIGTERM, and SIGHUP of a terminal that was closed."""

_INSECURE_WARNING: Final = (
    "WARNING: --insecure: certificates are not verified; "
    "anyone on the network path can read and change what is sent and received"
)


def warn_if_insecure(*, insecure: bool) -> None:
    """Writes a warning for `--insecure`, also with `--quiet`."""
    if insecure:
        print(_INSECURE_WARNING, file=sys.stderr)


def run(command: "Command", *, report: Callable[["Summary"], str | None]) -> int:
    """Runs the job of a command line, reports its end, and returns its exit code.

    Args:
        command: The command line.
        report: Returns the summary in words.

    Raises:
        CommandLineError: The file of the log can't be opened.
        HeadgateError: The job could not start.
        NotStarted: A signal ended the start.
        BrokenPipeError: The reader of standard output is gone.
    """
    # In an import, a KeyboardInterrupt may become another error, or be lost.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    from headgate.jobs import _display, _run  # noqa: PLC0415 - not for the help

    signal.signal(signal.SIGINT, signal.default_int_handler)
    log = _display.Log(**command.log)
    # Otherwise standard error has records alone, also of the end.
    in_words = command.quiet or log.format != "json" or log.file is not None
    if in_words:
        warn_if_insecure(insecure=command.options.insecure)
    try:
        display = _display.logged_display(log, show=not command.quiet, output=command.options.output)
    except OSError as error:
        raise CommandLineError([f"--log-file: can't open {log.file!r}: {error.strerror}"]) from None
    try:
        summary, stopped_by = _run.run(command.options, display, signals=SIGNALS, spell=as_flag)
    except (HeadgateError, NotStarted) as error:
        if in_words:
            raise
        return not_started_code(error)
    words = report(summary) if in_words else None
    return report_end(summary, stopped_by, report=words, summary_file=command.summary, in_words=in_words)


def report_end(
    summary: "Summary",
    stopped_by: signal.Signals | None,
    *,
    report: str | None,
    summary_file: str | None = None,
    in_words: bool = True,
) -> int:
    """Reports how a run has ended, and returns its exit code.

    Args:
        summary: The summary.
        stopped_by: The signal that stopped the run, if one did.
        report: The summary in words; `None`: there is nothing to report.
        summary_file: The file for the summary as JSON, or `-` for standard output.
        in_words: Whether standard error gets words; otherwise it has had the record of the end.

    Raises:
        BrokenPipeError: The reader of standard output is gone.
    """
    if in_words:
        if report is not None:
            print(fitted(report, sys.stderr), file=sys.stderr)
        if summary.failure is not None:
            print(f"error: {summary.failure.message}", file=sys.stderr)
        elif summary.stopped_by is not None:
            print(f"error: {summary.stopped_by}", file=sys.stderr)
    if summary_file is not None:
        try:
            _write_summary(summary.to_json(), summary_file)
        except BrokenPipeError:
            raise
        except OSError as error:
            where = "to standard output" if summary_file == STANDARD_STREAM else repr(summary_file)
            print(f"error: --summary: can't write {where}: {error.strerror}", file=sys.stderr)
            return EXIT_ERROR
    return exit_code(summary, stopped_by)


def _write_summary(text: str, file: str) -> None:
    if file != STANDARD_STREAM:
        Path(file).write_text(text, encoding="utf-8")
        return
    print(text, end="", flush=True)


def exit_code(summary: "Summary", stopped_by: signal.Signals | None) -> int:
    """Returns the exit code for the end of a run."""
    if summary.failure is not None:
        return EXIT_USAGE if summary.failure.kind in ("usage", "input") else EXIT_ERROR
    # A signal may have ended no more than the wait with replaced files.
    is_finished = summary.job is not None and summary.job.finished and not summary.interrupted
    if stopped_by is not None and not is_finished:
        return EXIT_SIGNALLED + stopped_by
    if summary.reader_gone:
        return EXIT_READER_GONE
    if summary.stopped_by is not None:
        return EXIT_JOB_STOPPED
    return EXIT_FAILED_ROWS if summary.has_failed_rows else EXIT_OK
