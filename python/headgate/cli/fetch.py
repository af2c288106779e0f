"""`headgate fetch`: the main job."""

import os
import select
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate.cli import _fetch_flags

if TYPE_CHECKING:
    from headgate._options import FetchOptions
    from headgate._summary import Summary

EXIT_FAILED_ROWS: Final = 3
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""What stops a job in order: Ctrl-C, a polite kill, a terminal that goes away."""

_SIGNAL_EXIT_BASE: Final = 128
_INSECURE_WARNING: Final = (
    "WARNING: --insecure: certificates are not verified; "
    "anyone on the way can read and change what is sent and received"
)


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, runs the job, says what became of it."""
    command = _fetch_flags.read(arguments)
    if command is None:
        return 0
    if command.options.insecure:
        tell(_INSECURE_WARNING)
    from headgate import _display, _job, _report  # noqa: PLC0415 - not for the help

    display = _display.display_for(show=not command.quiet, output=command.options.output)
    summary, stopped_by = _job.run(command.options, display, signals=SIGNALS)
    if not command.quiet and not _reader_is_gone(command.options):
        tell(_report.report(summary))
    if summary.failure is not None:
        tell(f"error: {summary.failure.message}")
    if command.summary is not None:
        try:
            command.summary.write_text(summary.to_json(), encoding="utf-8")
        except OSError as error:
            tell(f"error: --summary: cannot write {str(command.summary)!r}: {error.strerror}")
            return 1
    return exit_code(summary, stopped_by)


def tell(message: str) -> None:
    """Writes a message to standard error, if anybody is left there; if not, the exit code still tells how it ended."""
    try:
        print(message, file=sys.stderr, flush=True)
    except OSError:
        # What could not be written would fail once more at exit, and change the exit code.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


def exit_code(summary: "Summary", stopped_by: signal.Signals | None) -> int:
    """The exit code that tells how a job ended."""
    if summary.failure is not None:
        return 2 if summary.failure.kind in ("usage", "input") else 1
    if stopped_by is not None:
        return _SIGNAL_EXIT_BASE + stopped_by
    return EXIT_FAILED_ROWS if summary.has_failed_rows else 0


def _reader_is_gone(options: "FetchOptions") -> bool:
    """Whether the pipe that took the results is closed: then the job has ended quietly."""
    if options.output != "-":
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
