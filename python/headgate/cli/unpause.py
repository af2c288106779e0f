"""`headgate unpause`: a job goes on after a pause."""

from collections.abc import Sequence
from typing import Final

from headgate.cli import _changes
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Has the job in OUT go on after `headgate pause OUT`."""

_EXAMPLES: Final = f"""\
examples:
  headgate unpause results

{_changes.EXIT_CODES}"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, tells the job, says what became of it."""
    values = parser().read(arguments)
    if values is None:
        return 0
    output = _changes.directory(values)
    values.check()
    from headgate.jobs._job import pause_in  # noqa: PLC0415 - not for the help

    print(_changes.said_of(pause_in(output, paused=False)))
    return 0


def parser() -> Parser:
    """What can be typed after the verb."""
    made = Parser("unpause", usage="OUT", description=_DESCRIPTION, examples=_EXAMPLES)
    made.group("what to unpause")
    made.argument("output", "OUT", _changes.OUT_MEANS)
    return made
