"""`headgate clean`: removes the files of a job that no commit names."""

import json
from collections.abc import Sequence
from typing import Final

from headgate import _format
from headgate.cli import _changes
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Removes the files of the job in OUT that no commit names: what a run has left that was killed, and what --keep-replaced
has kept. If the last commit was interrupted, it is completed first, and a Delta log that was removed or damaged is
rewritten. Only part files and temporary files are removed, and nothing while the job runs or if it is damaged."""

_EXAMPLES: Final = """\
examples:
  headgate clean results --dry-run
  headgate clean results"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, removes the files, and prints them."""
    values = parser().read(arguments)
    if values is None:
        return 0
    output = _changes.directory(values)
    values.check()
    from headgate.jobs._job import job_clean  # noqa: PLC0415 - not for the help

    dry_run = values.switch("dry_run")
    cleaned = json.loads(job_clean(output, dry_run))
    for file in cleaned["files"]:
        print(_format.printable(f"{file['path']} ({_format.size(file['bytes'])})"))
    files, size = _format.plural(len(cleaned["files"]), "file"), _format.size(cleaned["bytes"])
    print(f"{files}, {size}: " + ("nothing was removed" if dry_run else "removed"))
    return 0


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser("clean", usage="OUT", description=_DESCRIPTION, examples=_EXAMPLES)
    made.group("what to clean")
    made.argument("output", "OUT", _changes.OUT_MEANS)
    made.switch("dry_run", "--dry-run", text="only print what would be removed")
    return made
