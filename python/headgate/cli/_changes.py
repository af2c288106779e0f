"""What is said of a change of a job that may be running."""

from typing import Final

from headgate.cli._parser import Values

OUT_MEANS: Final = "the directory of a job"
EXIT_CODES: Final = "exit codes: 0, or 2 if there is no job, it is finished, or it can't keep to the change"

_SAID: Final = {
    "taken": "the running job has taken it",
    "next run": "no job is running here: it holds from the next run",
    "not yet": "the running job is busy, and takes it as soon as it looks",
}


def directory(values: Values) -> str:
    """The directory that was named; that there is none is a mistake."""
    output = values.argument("output")
    if not output:
        values.wrong("output", "is missing: name the directory of a job")
    return output


def said_of(became: str) -> str:
    """What became of a change, in words."""
    return _SAID[became]
