"""The parts that `headgate set`, `headgate pause` and `headgate unpause` share."""

from collections.abc import Sequence
from typing import Final

from headgate.cli._parser import Parser
from headgate.cli._values import Values

OUT_MEANS: Final = "the directory of a job"
EXIT_CODES: Final = """\
exit codes: 0; 2 if there is no job, it is finished, or it can't apply the change; 1 if it is damaged, or its directory
can't be written to"""

SET: Final = {
    "applied": "set: the running job has applied it",
    "next run": "set: no job is running here, so it applies from the next run",
    "not yet": "set: the running job is busy, and applies it as soon as it can",
}
PAUSED: Final = {
    "applied": "paused: the running job starts no more requests",
    "next run": "paused: no job is running here, and the next run starts no requests until `headgate unpause`",
    "not yet": "not paused yet: the running job is busy, and pauses as soon as it can",
}
UNPAUSED: Final = {
    "applied": "unpaused: the running job starts requests again",
    "next run": "unpaused: no job is running here, and the next run starts requests",
    "not yet": "not unpaused yet: the running job is busy, and continues as soon as it can",
}
"""What the user sees after each verb, by the return value of `set_in` or `pause_in`."""


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

    print((PAUSED if paused else UNPAUSED)[pause_in(output, paused=paused)])
    return 0


def pause_parser(verb: str, description: str) -> Parser:
    """Returns the parser of `pause` or `unpause`."""
    made = Parser(
        verb, usage="OUT", description=description, examples=f"examples:\n  headgate {verb} results\n\n{EXIT_CODES}"
    )
    made.group(f"what to {verb}")
    made.argument("output", "OUT", OUT_MEANS)
    return made
