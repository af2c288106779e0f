"""`headgate retry`: retries the failed rows of a job."""

from collections.abc import Sequence

from headgate.cli import _ending, _retry_flags
from headgate.cli._flags import as_flag
from headgate.cli._retry_flags import parser

__all__ = ["main", "parser"]


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, retries the rows, and reports the end."""
    command = _retry_flags.read(arguments)
    if command is None:
        return 0
    _ending.warn_if_insecure(insecure=command.options.insecure)
    from headgate.jobs import _display, _report, _run  # noqa: PLC0415 - not for the help

    display = _display.display_for(show=not command.quiet)
    summary, stopped_by = _run.run(command.options, display, signals=_ending.SIGNALS, spell=as_flag)
    retry_flags = command.retry_flags
    report = (
        _report.failed_rows(summary, retry_flags=retry_flags)
        if command.quiet
        else _report.retry_report(summary, as_flag, only=command.options.only, retry_flags=retry_flags)
    )
    return _ending.report_end(summary, stopped_by, report=report, summary_file=command.summary)
