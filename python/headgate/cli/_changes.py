"""The parts that `headgate set`, `headgate pause` and `headgate unpause` share."""

from collections.abc import Sequence
from typing import Final

from headgate.cli._parser import Parser
from headgate.cli._values import Values

OUT_MEANS: Final = "the directory of a job"
EXIT_CODES: Final = """\
exit codes: 0; 2 if there is no job, it is finished, or it can't keep to the change; 1 if it is damaged, or its
directory can't be written to"""

MESSAGES: Final = {
    "applied": "the running job applies it",
    "next run": "no job is running here: it holds from the next run",
    "not yet": "the running job is busy, and applies it as soon as it can",
}
"""What the user sees, by the return values of `set_in` and `pause_in`."""


def directory(values: Values) -> str:
    """Returns the directory of the job, and adds a mistake if it is missing."""
    output = values.argument("output")
    if not output:
        values.wrong("output", "is missing: name the directory of a job")
    return output


def pause_main(made: Parser, arguments: Sequence[str], *, paused: bool) -> int:
    """Reads the command line of `pause` or `unpause`, changes the job, and prints the result."""
    values = made.read(arguments)
    if values is None:
        return 0
    output = directory(values)
    values.check()
    from headgate.jobs._job import pause_in  # noqa: PLC0415 - not for the help

    print(MESSAGES[pause_in(output, paused=paused)])
    return 0


def pause_parser(verb: str, description: str) -> Parser:
    """Returns the parser of `pause` or `unpause`."""
    made = Parser(
        verb, usage="OUT", description=description, examples=f"examples:\n  headgate {verb} results\n\n{EXIT_CODES}"
    )
    made.group(f"what to {verb}")
    made.argument("output", "OUT", OUT_MEANS)
    return made
