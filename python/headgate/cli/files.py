"""`headgate files`: lists the files of a job's newest commit, for programs that read them."""

import json
import sys
from collections.abc import Sequence
from typing import Final

from headgate.cli import _changes
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Lists the files of the newest commit of the job in OUT, one a line: those of succeeded rows first. Together they have
each row once, also while the job runs. Before the first commit, this is a Parquet file without rows. After a kill, the
newest files may be in _headgate/tmp until the job continues."""

_EXAMPLES: Final = """\
examples:
  headgate files results
  headgate files results --json | jq -r '.files[] | select(.failed) | .path'

the keys of --json, which will not change: output, format, commit (0: none yet), delta (whether there is a
Delta table with this commit as its version), rows, bytes, and files, each with path, rows, bytes, failed and
crc32 (of all its bytes)."""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line and prints the files."""
    values = parser().read(arguments)
    if values is None:
        return 0
    output = _changes.directory(values)
    values.check()
    from headgate.jobs._job import job_files  # noqa: PLC0415 - not for the help

    files = json.loads(job_files(output))
    if values.switch("as_json"):
        sys.stdout.write(json.dumps(files, indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.write("".join(f"{file['path']}\n" for file in files["files"]))
    return 0


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser("files", usage="OUT [flags]", description=_DESCRIPTION, examples=_EXAMPLES)
    made.group("what to show")
    made.argument("output", "OUT", _changes.OUT_MEANS)
    made.switch("as_json", "--json", "--as-json", text="print all of it as JSON")
    return made
