"""The command `headgate`: finds the verb, and turns what comes back into an exit code.

Exit codes:
    0    every row was answered
    3    finished, with failed rows
    2    a mistake on the command line, an input that cannot be read, or a place for results that cannot be used
    130  interrupted (143: terminated, 129: the terminal went away); the same command goes on, where that can be
    141  whoever read standard output went away
    1    anything else
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final

from headgate._errors import HeadgateError, InternalError
from headgate._message import spelled
from headgate._nearest import nearest
from headgate.cli._ending import EXIT_READER_GONE
from headgate.cli._parser import CommandLineError

EXIT_OK: Final = 0
EXIT_ERROR: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130

VERBS: Final = {
    "fetch": "make one request for each row of the input",
    "status": "say how far a job is",
    "retry": "ask the failed rows of a job again",
    "show": "print the first rows of results",
    "serve": "run a local server to rehearse against: delays and faults",
    "demo": "fetch 100,000 URLs from a local server",
}


def main() -> int:
    """Runs the command line of this process."""
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough. Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_READER_GONE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    return code


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; a user's mistake is a message, never a stack trace."""
    try:
        return _dispatch(arguments)
    except CommandLineError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except HeadgateError as error:
        from headgate.cli._flags import as_flag  # noqa: PLC0415 - only after an error

        print(f"error: {spelled(error.pieces, as_flag)}", file=sys.stderr)
        # No job has begun: what was asked for cannot be done, wherever that came to light.
        return EXIT_ERROR if isinstance(error, InternalError) else EXIT_USAGE


def _dispatch(arguments: Sequence[str]) -> int:
    for argument in arguments:
        if not argument.isascii() and any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise CommandLineError([f"{argument!r} is not UTF-8"])
    if not arguments:
        print(_usage(), file=sys.stderr)
        return EXIT_USAGE
    first, *rest = arguments
    if first in ("-h", "--help", "help"):
        print(_usage())
        return EXIT_OK
    if first in ("-V", "--version"):
        from headgate._version import __version__  # noqa: PLC0415 - as above

        print(f"headgate {__version__}")
        return EXIT_OK
    if first not in VERBS:
        what = "flag" if first.startswith("-") else "verb"
        hint = nearest(first, [*VERBS, "--help", "--version"])
        raise CommandLineError([f"unknown {what} {first}" + (f": did you mean {hint}?" if hint else "")])
    verb: Callable[[Sequence[str]], int] = import_module(f"headgate.cli.{first}").main
    return verb(rest)


def _usage() -> str:
    verbs = "\n".join(f"  {verb:<8}{what}" for verb, what in VERBS.items())
    return f"""\
headgate makes very large numbers of HTTP requests with a bounded number in flight.

usage: headgate VERB ...

{verbs}

`headgate VERB --help` tells more of each; `headgate --version` says which headgate this is"""
