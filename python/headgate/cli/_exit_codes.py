"""The exit codes of all verbs, for the code, the help and the documents."""

from collections.abc import Mapping
from signal import SIGHUP, SIGINT, SIGPIPE, SIGTERM
from typing import Final

from headgate._errors import HeadgateError, InternalError, NotStarted, StorageError
from headgate.cli._wrapping import listed

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_FAILED_ROWS: Final = 3
EXIT_JOB_STOPPED: Final = 4
EXIT_RUNNING: Final = 5
EXIT_UNFINISHED: Final = 6
EXIT_SIGNALLED: Final = 128
"""The number that a shell adds to that of a signal."""

EXIT_INTERRUPTED: Final = EXIT_SIGNALLED + SIGINT
EXIT_READER_GONE: Final = EXIT_SIGNALLED + SIGPIPE
"""The exit code of a program that SIGPIPE has killed."""

MEANINGS: Final[Mapping[int, str]] = {
    EXIT_OK: "done; of a job: every row succeeded",
    EXIT_ERROR: "an error of this machine, such as a full disk, a directory that can't be written to or a damaged file,"
    " or of headgate; the same command continues once the cause is gone",
    EXIT_USAGE: "a mistake on the command line, an input that can't be read, or an output that can't be used, such as"
    " the directory of another job",
    EXIT_FAILED_ROWS: "the job finished, and some of its rows failed",
    EXIT_JOB_STOPPED: "the job stopped itself: too many failed rows, refused credentials, no token, a used-up budget,"
    " or no network; the same command continues, with a larger budget or new credentials",
    EXIT_SIGNALLED + SIGHUP: "stopped because the terminal was closed (SIGHUP); the same command continues",
    EXIT_INTERRUPTED: "interrupted by Ctrl-C; the same command continues",
    EXIT_READER_GONE: "stopped because the reader of standard output has gone, as in -o - | head",
    EXIT_SIGNALLED + SIGTERM: "stopped by SIGTERM; the same command continues",
}
"""The exit codes of every verb but `status`."""

STATUS_MEANINGS: Final[Mapping[int, str]] = {
    EXIT_OK: "the job finished, and every row succeeded",
    EXIT_ERROR: "the job is damaged, or can't be read",
    EXIT_USAGE: "there is no job, or a mistake on the command line",
    EXIT_FAILED_ROWS: "the job finished, and some of its rows failed",
    EXIT_RUNNING: "the job is running",
    EXIT_UNFINISHED: "the job is not finished and not running",
}
"""The exit codes of `headgate status`."""


def listing(meanings: Mapping[int, str], width: int, *, of: str = "") -> str:
    """Returns the list of exit codes for the help; `of` names the verbs in its title."""
    return f"exit codes{of}:\n" + listed(((str(code), meaning) for code, meaning in meanings.items()), width)


def not_started_code(error: HeadgateError | NotStarted) -> int:
    """Returns the exit code of a command whose job could not start, wherever the error was found."""
    if isinstance(error, NotStarted):
        return EXIT_SIGNALLED + error.signal
    return EXIT_ERROR if isinstance(error, InternalError | StorageError) else EXIT_USAGE
