"""`headgate retry`: retries the failed rows of a job."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headgate.cli import _ending, _retry_flags
from headgate.cli._retry_flags import parser
from headgate.jobs._as_flag import as_flag

if TYPE_CHECKING:
    from headgate._summary import Summary

__all__ = ["main", "parser"]


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, retries the rows, and reports the end."""
    command = _retry_flags.read(arguments)
    if command is None:
        return 0

    def report(summary: "Summary") -> str | None:
        from headgate.jobs import _report  # noqa: PLC0415 - not for the help

        retry_flags = command.retry_flags
        if command.quiet:
            return _report.quiet_report(summary, as_flag, of_a_retry=True, retry_flags=retry_flags)
        return _report.retry_report(summary, as_flag, only=command.options.only, retry_flags=retry_flags)

    return _ending.run(command, report=report)
