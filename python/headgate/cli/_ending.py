"""Reports the end of a run on the command line: in words, in a file, and by the exit code."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate._errors import OutputError
from headgate._message import spelled
from headgate.cli._exit_codes import (
    EXIT_ERROR,
    EXIT_FAILED_ROWS,
    EXIT_JOB_STOPPED,
    EXIT_OK,
    EXIT_READER_GONE,
    EXIT_SIGNALLED,
    EXIT_USAGE,
)
from headgate.cli._flags import as_flag
from headgate.cli._wrapping import fitted

if TYPE_CHECKING:
    from headgate._summary import Summary

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that stop a job in order: Ctrl-C, SIGTERM, and SIGHUP of a terminal that was closed."""

_INSECURE_WARNING: Final = (
    "WARNING: --insecure: certificates are not verified; "
    "anyone on the network path can read and change what is sent and received"
)


def warn_if_insecure(*, insecure: bool) -> None:
    """Writes a warning for `--insecure`, also with `--quiet`."""
    if insecure:
        write_error(_INSECURE_WARNING)


def report_end(
    summary: "Summary", stopped_by: signal.Signals | None, *, report: str | None, summary_file: Path | None = None
) -> int:
    """Reports how a run has ended, and returns its exit code.

    Args:
        summary: The summary.
        stopped_by: The signal that stopped the run, if one did.
        report: The summary in words; `None`: there is nothing to report.
        summary_file: The file for the summary as JSON.
    """
    if report is not None:
        write_error(fitted(report, sys.stderr))
    if summary.failure is not None:
        write_error(f"error: {summary.failure.message}")
    elif summary.stopped_by is not None:
        write_error(f"error: {summary.stopped_by}")
    if summary_file is not None:
        try:
            summary_file.write_text(summary.to_json(), encoding="utf-8")
        except OSError as error:
            write_error(f"error: --summary: can't write {str(summary_file)!r}: {error.strerror}")
            return EXIT_ERROR
    return exit_code(summary, stopped_by)


def report_damage(error: OutputError, output: str) -> int:
    """Reports an error of the job in a directory, and returns its exit code.

    Raises:
        OutputError: There is no job: the mistake is on the command line.
    """
    try:
        has_job = Path(output, "_headgate", "job.json").is_file()
    except OSError:
        has_job = True  # it can't be read
    if not has_job:
        raise error
    write_error(f"error: {spelled(error.pieces, as_flag)}")
    return EXIT_ERROR


def write_error(message: str) -> None:
    """Writes a message to standard error. If that is closed, the exit code still reports how the run ended."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        # The unwritten text would fail again at exit, and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def exit_code(summary: "Summary", stopped_by: signal.Signals | None) -> int:
    """Returns the exit code for the end of a run."""
    if summary.failure is not None:
        return EXIT_USAGE if summary.failure.kind in ("usage", "input") else EXIT_ERROR
    if stopped_by is not None:
        return EXIT_SIGNALLED + stopped_by
    if summary.reader_gone:
        return EXIT_READER_GONE
    if summary.stopped_by is not None:
        return EXIT_JOB_STOPPED
    return EXIT_FAILED_ROWS if summary.has_failed_rows else EXIT_OK
