"""The exit codes of `headgate fetch` and `headgate retry`, for the code, the help and the documents."""

from collections.abc import Mapping
from signal import SIGHUP, SIGINT, SIGPIPE, SIGTERM
from textwrap import fill
from typing import Final

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_FAILED_ROWS: Final = 3
EXIT_JOB_STOPPED: Final = 4
EXIT_SIGNALLED: Final = 128
"""The number that a shell adds to that of a signal."""

EXIT_INTERRUPTED: Final = EXIT_SIGNALLED + SIGINT
EXIT_READER_GONE: Final = EXIT_SIGNALLED + SIGPIPE
"""The exit code of a program that SIGPIPE has killed."""

MEANINGS: Final[Mapping[int, str]] = {
    EXIT_OK: "every row of the job was answered",
    EXIT_FAILED_ROWS: "the job finished, and some of its rows failed",
    EXIT_JOB_STOPPED: "the job stopped itself: too many failed rows, or no network; the same command continues",
    EXIT_USAGE: "a mistake on the command line, an input that can't be read, or an output that can't be used",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C; the same command continues",
    EXIT_SIGNALLED + SIGTERM: "stopped by SIGTERM; the same command continues",
    EXIT_SIGNALLED + SIGHUP: "stopped because the terminal was closed (SIGHUP); the same command continues",
    EXIT_READER_GONE: "stopped because the reader of standard output has gone, as in -o - | head",
    EXIT_ERROR: "anything else, such as a full disk; the same command continues once the cause is gone",
}


def listing(width: int) -> str:
    """Returns the list of exit codes for the help."""
    lines = [
        fill(meaning, width=width, initial_indent=f"  {code:<5}", subsequent_indent=" " * 7)
        for code, meaning in MEANINGS.items()
    ]
    return "\n".join(["exit codes:", *lines])
