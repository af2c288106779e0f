"""`headgate fetch`: makes the requests of an input."""

import sys
from collections.abc import Sequence

from headgate.cli import _ending, _fetch_flags, _replace
from headgate.cli._fetch_flags import parser
from headgate.cli._flags import as_flag

__all__ = ["main", "parser"]


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, runs the job, and reports its end."""
    command = _fetch_flags.read(arguments)
    if command is None:
        return 0
    options = command.options
    if options.if_exists == "overwrite" and not command.yes and not _replace.confirm_replace(options.output):
        print("nothing was done", file=sys.stderr)
        return _replace.EXIT_NOT_REPLACED
    _ending.warn_if_insecure(insecure=options.insecure)
    from headgate.jobs import _display, _report, _run  # noqa: PLC0415 - not for the help

    display = _display.display_for(show=not command.quiet, output=options.output)
    summary, stopped_by = _run.run(options, display, signals=_ending.SIGNALS, spell=as_flag)
    retry_flags = command.retry_flags
    report = (
        _report.failed_rows(summary, retry_flags=retry_flags)
        if command.quiet
        else _report.report(summary, as_flag, retry_flags=retry_flags)
    )
    return _ending.report_end(summary, stopped_by, report=report, summary_file=command.summary)
