"""`headgate verify`: checks the results of a job completely, and repairs them."""

import json
import sys
from collections.abc import Sequence
from typing import Any, Final

from headgate import _format
from headgate.cli import _changes
from headgate.cli._exit_codes import EXIT_ERROR, EXIT_OK
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Reads all results of the job in OUT: every file is compared with its checksum, also each body that --save-to has saved
(of archives, only that they are there). Every row must be there once, and the rows, the totals and the Delta log must
be those of the newest commit. It says what is wrong, and what can be done. A file that can't be read is an error.

With --repair, rows that are lost with a damaged or missing file are marked as not done, and the file is removed: the
same `headgate fetch` then fetches these rows. Rows in files that are not done become done, and saved bodies stay as
they are."""

_EXAMPLES: Final = """\
examples:
  headgate verify results
  headgate verify results --repair

the keys of --json, which will not change: output, commit, files, rows, bytes, running, problems (at most 100 of a
kind, each with kind, message and advice; kinds are damaged_file, lost_rows, saved_body, rows_twice, uncounted_rows,
totals, unnamed_file and delta_log), problem_count and repaired_rows (null: nothing was repaired).

The exit code is 1 if the results have a problem that remains, and 0 if they are sound, also after a repair."""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, verifies the job, and prints what is wrong."""
    values = parser().read(arguments)
    if values is None:
        return 0
    output = _changes.directory(values)
    values.check()
    from headgate.jobs._job import job_verify  # noqa: PLC0415 - not for the help

    found: dict[str, Any] = json.loads(job_verify(output, values.switch("repair")))
    if values.switch("as_json"):
        sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")
    else:
        print("\n".join(_format.printable(line) for line in report(found)))
    return EXIT_ERROR if found["problem_count"] else EXIT_OK


def report(found: dict[str, Any]) -> list[str]:
    """Returns what was found, as lines."""
    lines = []
    for problem in found["problems"]:
        lines += [problem["message"], f"  {problem['advice']}"]
    left_out = found["problem_count"] - len(found["problems"])
    if left_out:
        lines.append(f"and {_format.plural(left_out, 'problem')} more")
    if found["repaired_rows"] is not None:
        rows = _format.plural(found["repaired_rows"], "row")
        lost = f": {rows} marked as not done; the same headgate fetch fetches them" if found["repaired_rows"] else ""
        lines.append(f"repaired{lost}")
    read = f"{_format.plural(found['rows'], 'row')} in {_format.plural(found['files'], 'file')}"
    count = found["problem_count"]
    lines.append(f"{read}: {'no problems' if not count else _format.plural(count, 'problem')}")
    return lines


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser("verify", usage="OUT [flags]", description=_DESCRIPTION, examples=_EXAMPLES)
    made.group("what to verify")
    made.argument("output", "OUT", _changes.OUT_MEANS)
    made.switch(
        "repair", "--repair", text="mark rows of damaged files as not done, so that the same fetch fetches them"
    )
    made.switch("as_json", "--json", "--as-json", text="print all of it as JSON")
    return made
