"""`headgate pause`: a job starts nothing more for now."""

from collections.abc import Sequence
from typing import Final

from headgate.cli import _changes
from headgate.cli._parser import Parser

_DESCRIPTION: Final = """\
Has the job in OUT start nothing more until `headgate unpause OUT`. What is in flight goes on to its end and is
written. The pause holds also if the job is stopped and resumed."""

_EXAMPLES: Final = f"""\
examples:
  headgate pause results

{_changes.EXIT_CODES}"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, tells the job, says what became of it."""
    values = parser().read(arguments)
    if values is None:
        return 0
    output = _changes.directory(values)
    values.check()
    from headgate.jobs._job import pause_in  # noqa: PLC0415 - not for the help

    print(_changes.said_of(pause_in(output, paused=True)))
    return 0


def parser() -> Parser:
    """What can be typed after the verb."""
    made = Parser("pause", usage="OUT", description=_DESCRIPTION, examples=_EXAMPLES)
    made.group("what to pause")
    made.argument("output", "OUT", _changes.OUT_MEANS)
    return made
