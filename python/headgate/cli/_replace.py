"""The question before `--if-exists overwrite` removes results."""

import os
import sys
from pathlib import Path
from typing import IO, Final

from headgate import _format
from headgate._errors import HeadgateError
from headgate.jobs._option_entry import STANDARD_STREAM

EXIT_NOT_REPLACED: Final = 2
_YES: Final = ("y", "yes")
_RESULTS: Final = ("part-*", "failed-*", "_headgate")
_STDIN: Final = 0
_STDERR: Final = 2


def confirm_replace(output: str | None) -> bool:
    """Returns whether the results of an earlier job may be replaced; asks the user if there are any and a terminal."""
    if output in (None, STANDARD_STREAM) or not _has_results(Path(output)):
        return True
    terminal = _terminal()
    return terminal is None or _ask(_question(output), terminal)


def _has_results(output: Path) -> bool:
    return any(True for pattern in _RESULTS for _ in output.glob(pattern))


def _terminal() -> IO[str] | None:
    """Returns the terminal on which the user can reply, or `None` if there is none."""
    if not os.isatty(_STDERR):
        return None
    if os.isatty(_STDIN):
        return sys.stdin
    try:
        # Standard input may be the URLs, although the process has a terminal.
        return Path("/dev/tty").open(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _question(output: str) -> str:
    from headgate.jobs._job import status_of  # noqa: PLC0415 - not for the help

    try:
        status = status_of(output)
    except HeadgateError:
        # The engine's message would recommend --if-exists overwrite, which the user has chosen already.
        return f"{output} contains a job that can't be read (see `headgate status`): replace what is there?"
    what = _format.plural(status.done, "row") if status.done else "the files"
    return f"{output} contains {what} of a job started {_format.moment(status.started_at)}: replace them?"


def _ask(question: str, terminal: IO[str]) -> bool:
    print(_format.printable(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
    reply = ""
    try:
        reply = terminal.readline()
    finally:
        if not reply.endswith("\n"):  # Ctrl-D or Ctrl-C do not end the line
            print(file=sys.stderr, flush=True)
    return reply.strip().lower() in _YES
