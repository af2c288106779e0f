"""`headgate status`: shows the progress of a job, whether it runs or not."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate.cli._exit_codes import (
    EXIT_FAILED_ROWS,
    EXIT_OK,
    EXIT_RUNNING,
    EXIT_UNFINISHED,
    STATUS_MEANINGS,
    listing,
)
from headgate.cli._parser import Parser
from headgate.cli._wrapping import fitted, help_width, terminal_width

if TYPE_CHECKING:
    from headgate.jobs._status import JobStatus

_DESCRIPTION: Final = """\
Shows how far the job in OUT had got at its last commit, and checks its results: whether a file is missing, has another
length or doesn't belong to the job. If the results are at most 1 GiB and no process is writing to them, every byte is
compared with its checksum, too (`headgate verify` always does that, and more). A running job is not disturbed: it
writes its progress once a second, which is shown."""

_EXAMPLES: Final = """\
examples:
  headgate status results
  headgate status results --json | jq .done

the keys of --json, which will not change: output, input, format; rows (null: not known), max_rows (of a trial; null:
all rows are read), done, watermark (all rows before it are done), succeeded, failed, errors (failed rows by kind, or by
status as status:503), requests and cost of all runs (cost null: rows have none), max_requests and max_cost (null: no
budget), parts, bytes, parts_to_place (files that were not moved to their places because the job was killed), finished,
resumable, state, running, pid (null: none, or not known), command, heartbeat_at, heartbeat_age_s and progress (of the
running process; null: none), started_at, committed_at (null: never), note (null: nothing), set
(options that were set while it ran), paused, run_count, and runs: the last 32, each with command, started_at,
committed_at, rows, ended, stopped_by (why it stopped by itself; null: it did not) and by_failures (its rows failed).
Times are in UTC, as in RFC 3339."""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line and prints the status."""
    values = parser().read(arguments)
    if values is None:
        return 0
    output = values.argument("output")
    if not output:
        values.wrong("output", "is missing: name the directory of a job")
    values.check()
    from headgate.jobs._as_flag import as_flag  # noqa: PLC0415 - not for the help
    from headgate.jobs._job import status_of  # noqa: PLC0415 - not for the help
    from headgate.jobs._status import report  # noqa: PLC0415 - as above

    status = status_of(output, spell=as_flag)
    if values.switch("as_json"):
        sys.stdout.write(status.to_json())
    else:
        print(fitted(report(status, terminal_width(sys.stdout)), sys.stdout))
    return exit_code(status)


def exit_code(status: "JobStatus") -> int:
    """Returns the exit code for the state of a job."""
    if status.running:
        return EXIT_RUNNING
    if not status.finished:
        return EXIT_UNFINISHED
    return EXIT_FAILED_ROWS if status.failed else EXIT_OK


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "status",
        usage="OUT [flags]",
        description=_DESCRIPTION,
        examples=f"{_EXAMPLES}\n\n{listing(STATUS_MEANINGS, help_width())}",
    )
    made.group("what to show")
    made.argument("output", "OUT", "the directory of a job")
    made.switch("as_json", "--json", "--as-json", text="print all of it as JSON")
    return made
