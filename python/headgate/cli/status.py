"""`headgate status`: how far a job is, whether it runs or not."""

import sys
from collections.abc import Sequence
from typing import Final

from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Says how far the job in OUT is, as of its last commit. A job that runs is not disturbed."""

_EXAMPLES: Final = """\
examples:
  headgate status results
  headgate status results --json | jq .done

the keys of --json, which stay: output, input, format; rows (null: not known), done, watermark (all rows before it are
done), answered, failed, errors (failed rows by kind, or by status as status:503), parts, bytes, finished, resumable,
running, pid (null: none, or not known), started_at, committed_at (null: never), run_count, and runs: the last 32, each
with command, started_at, committed_at, rows, ended. Times are in UTC, as in RFC 3339.

exit codes: 0, or 2 where there is no job"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line and says how far the job is."""
    parser = Parser("status", usage="OUT [flags]", description=_DESCRIPTION, examples=_EXAMPLES)
    parser.group("what to say")
    parser.argument("output", "OUT", "the directory of a job")
    parser.switch("json", "--json", text="as JSON")
    values = parser.read(arguments)
    if values is None:
        return 0
    output = values.argument("output")
    if not output:
        values.wrong("output", "is missing: name the directory of a job")
    values.check()
    from headgate import _report_status  # noqa: PLC0415 - not for the help
    from headgate._job import status_of  # noqa: PLC0415 - as above

    status = status_of(output)
    if values.switch("json"):
        sys.stdout.write(status.to_json())
    else:
        print(_report_status.report(status))
    return 0
