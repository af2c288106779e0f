"""`headgate fetch`: makes the requests of an input."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.cli import _ending, _fetch_flags, _replace
from headgate.cli._fetch_flags import parser
from headgate.jobs._as_flag import as_flag

if TYPE_CHECKING:
    from headgate._summary import Summary

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

    def report(summary: "Summary") -> str | None:
        from headgate.jobs import _report  # noqa: PLC0415 - not for the help

        retry_flags = command.retry_flags
        if command.quiet:
            return _report.quiet_report(summary, as_flag, retry_flags=retry_flags)
        return _report.report(summary, as_flag, retry_flags=retry_flags)

    return _ending.run(command, report=report)
