"""The question before `--fresh` throws results away."""

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


def may_replace(output: str | None) -> bool:
    """Whether what an earlier job left may be replaced: asks where there is such a thing, and somebody to answer."""
    if output in (None, STANDARD_STREAM) or not _holds_results(Path(output)):
        return True
    terminal = _terminal()
    return terminal is None or _is_yes(_question(output), terminal)


def _holds_results(output: Path) -> bool:
    return any(True for pattern in _RESULTS for _ in output.glob(pattern))


def _terminal() -> IO[str] | None:
    """Where the answer is typed; `None`: nobody sees the question, or nobody can answer it."""
    if not os.isatty(_STDERR):
        return None
    if os.isatty(_STDIN):
        return sys.stdin
    try:
        # Standard input may carry the URLs: the one at the keyboard is there all the same.
        return Path("/dev/tty").open(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _question(output: str) -> str:
    from headgate.jobs._job import status_of  # noqa: PLC0415 - not for the help

    try:
        status = status_of(output, check_all=False)
    except HeadgateError:
        # Why is told by the engine with ways on, and --fresh, the one that was chosen, is among them.
        return f"{output} holds a job that can't be read (see `headgate status`): replace what is there?"
    what = _format.plural(status.done, "row") if status.done else "the files"
    return f"{output} holds {what} of a job started {_format.moment(status.started_at)}: replace them?"


def _is_yes(question: str, terminal: IO[str]) -> bool:
    print(_format.printable(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
    answer = ""
    try:
        answer = terminal.readline()
    finally:
        if not answer.endswith("\n"):  # Ctrl-D or Ctrl-C: the line is not ended yet
            print(file=sys.stderr, flush=True)
    return answer.strip().lower() in _YES
