"""What `headgate pause` and `headgate unpause` have in common."""

from collections.abc import Sequence

from headgate.cli import _changes
from headgate.cli._parser import Parser


def main(made: Parser, arguments: Sequence[str], *, paused: bool) -> int:
    """Reads the command line, tells the job, says what became of it."""
    values = made.read(arguments)
    if values is None:
        return 0
    output = _changes.directory(values)
    values.check()
    from headgate.jobs._job import pause_in  # noqa: PLC0415 - not for the help

    print(_changes.said_of(pause_in(output, paused=paused)))
    return 0


def parser(verb: str, description: str) -> Parser:
    """What can be typed after the verb."""
    examples = f"examples:\n  headgate {verb} results\n\n{_changes.EXIT_CODES}"
    made = Parser(verb, usage="OUT", description=description, examples=examples)
    made.group(f"what to {verb}")
    made.argument("output", "OUT", _changes.OUT_MEANS)
    return made
