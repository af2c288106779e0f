"""How the end of a run is told on the command line: in words, in a file, and by the exit code."""

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headgate.cli._exit_codes import (
    EXIT_ERROR,
    EXIT_FAILED_ROWS,
    EXIT_JOB_STOPPED,
    EXIT_OK,
    EXIT_READER_GONE,
    EXIT_SIGNALLED,
    EXIT_USAGE,
)
from headgate.cli._wrapping import fitted

if TYPE_CHECKING:
    from headgate._summary import Summary

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What stops a job in order: Ctrl-C, a polite kill, a terminal that goes away."""

_INSECURE_WARNING: Final = (
    "WARNING: --insecure: certificates are not verified; "
    "anyone on the network path can read and change what is sent and received"
)


def warn_if_insecure(*, insecure: bool) -> None:
    """Says what it means, also where nothing else is to be said."""
    if insecure:
        tell(_INSECURE_WARNING)


def end(
    summary: "Summary", stopped_by: signal.Signals | None, *, report: str | None, summary_file: Path | None = None
) -> int:
    """Tells how a run has ended; its exit code.

    Args:
        summary: What it has done.
        stopped_by: The signal that stopped it, if one did.
        report: The summary in words, if anybody wants to read it.
        summary_file: Where to write it as JSON.
    """
    if report is not None:
        tell(fitted(report, sys.stderr))
    if summary.failure is not None:
        tell(f"error: {summary.failure.message}")
    elif summary.stopped_by is not None:
        tell(f"error: {summary.stopped_by}")
    if summary_file is not None:
        try:
            summary_file.write_text(summary.to_json(), encoding="utf-8")
        except OSError as error:
            tell(f"error: --summary: can't write {str(summary_file)!r}: {error.strerror}")
            return EXIT_ERROR
    return exit_code(summary, stopped_by)


def tell(message: str) -> None:
    """Writes a message to standard error, if anybody is left there; if not, the exit code still tells how it ended."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        # What could not be written would fail once more at exit, and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def exit_code(summary: "Summary", stopped_by: signal.Signals | None) -> int:
    """The exit code that tells how a run ended."""
    if summary.failure is not None:
        return EXIT_USAGE if summary.failure.kind in ("usage", "input") else EXIT_ERROR
    if stopped_by is not None:
        return EXIT_SIGNALLED + stopped_by
    if summary.reader_gone:
        return EXIT_READER_GONE
    if summary.stopped_by is not None:
        return EXIT_JOB_STOPPED
    return EXIT_FAILED_ROWS if summary.has_failed_rows else EXIT_OK
