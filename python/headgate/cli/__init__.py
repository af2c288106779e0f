"""The command `headgate`: runs a verb, and turns its result into an exit code."""

import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Final

from headgate._errors import HeadgateError, NotStarted
from headgate._message import spelled
from headgate._nearest import nearest
from headgate.cli._exit_codes import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_READER_GONE,
    EXIT_USAGE,
    not_started_code,
)
from headgate.cli._groups import TOPICS, listing
from headgate.cli._streams import StandardOutputError, protect_streams
from headgate.cli._values import CommandLineError
from headgate.cli._verbs import HELP, VERBS
from headgate.cli._wrapping import help_width, listed, wrapped

_GROUPS: Final = "flags of headgate fetch, explained by `headgate help GROUP`:"
_TOPICS: Final = "other topics of `headgate help`:"
_ERROR_KIND: Final = "one error kind, such as timeout"
_ALL_FLAGS: Final = "all flags of headgate fetch by group, as JSON"
_LETTERS: Final = """\
Short flags for requests are those of curl: -X -H -d -F -u -r -L -x (proxy) -k -E -4 -6. These are headgate's own: -o
(the directory of results), -c (concurrency; curl has --parallel-max), -q (quiet), -y (yes), -n (rows of `headgate
show`)."""

_HELP: Final = ("help", "-h", "--help")
_AS_JSON: Final = ("--as-json", "--json")
_INPUTS: Final = (".txt", ".csv", ".tsv", ".ndjson", ".jsonl", ".parquet", ".gz", ".zst")


def main() -> int:
    """Runs the command line of this process."""
    protect_streams()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        return EXIT_READER_GONE
    except StandardOutputError as error:
        print(f"error: can't write to standard output: {error.strerror}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return code


def run(arguments: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; a user's mistake is a message, never a stack trace."""
    try:
        return _dispatch(arguments)
    except CommandLineError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except HeadgateError as error:
        from headgate.jobs._as_flag import as_flag  # noqa: PLC0415 - only after an error

        print(f"error: {spelled(error.pieces, as_flag)}", file=sys.stderr)
        return not_started_code(error)
    except NotStarted as error:
        print(error, file=sys.stderr)
        return not_started_code(error)


def _dispatch(arguments: Sequence[str]) -> int:
    for argument in arguments:
        if not argument.isascii() and any("\ud800" <= letter <= "\udfff" for letter in argument):
            raise CommandLineError([f"{argument!r} is not UTF-8"])
    if not arguments:
        print(_usage(), file=sys.stderr)
        return EXIT_USAGE
    first, *rest = arguments
    if first == "help" and rest and rest[0] not in _HELP:
        if rest[0] not in VERBS:
            print(_page(rest[0]), end="")
            return EXIT_OK
        first, rest = rest[0], ["--help"]
    if first in _HELP:
        print(_usage())
        return EXIT_OK
    if first in ("-V", "--version"):
        from headgate._native import COMMIT, TARGET, __version__  # noqa: PLC0415 - as above

        # The commit is unknown if it was built from files that are in no repository.
        print(f"headgate {__version__} ({', '.join(filter(None, [COMMIT, TARGET]))})")
        return EXIT_OK
    if first not in VERBS:
        what = "flag" if first.startswith("-") else "verb"
        hint = nearest(first, [*VERBS, "help", "--help", "--version"]) or _with_verb(first)
        raise CommandLineError([f"unknown {what} {first}" + (f": did you mean {hint}?" if hint else "")])
    verb: Callable[[Sequence[str]], int] = import_module(f"headgate.cli.{first}").main
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return verb(rest)


def _page(topic: str) -> str:
    """Returns the page of `headgate help` about a topic, or all flags as JSON."""
    from headgate.cli import _topics  # noqa: PLC0415 - only for this

    if topic in _AS_JSON:
        return _topics.as_json()
    page = _topics.page(topic)
    if page is None:
        hint = _topics.hint(topic)
        raise CommandLineError([f"unknown topic {topic}" + (f": {hint}" if hint else "")])
    return page


def _with_verb(first: str) -> str | None:
    """Returns the command that a user probably meant without a verb, if there is one."""
    if first.startswith("-") and first != "-":
        return f"headgate fetch ... {first}" if first.partition("=")[0] in _flags_of_fetch() else None
    known = "://" in first or first == "-" or Path(first).suffix in _INPUTS or _exists(first)
    return f"headgate fetch {shlex.quote(first)}" if known else None


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # no file could have this name
        return False


def _flags_of_fetch() -> Sequence[str]:
    from headgate.cli.fetch import parser  # noqa: PLC0415 - only after a mistake

    return parser().names()


def _usage() -> str:
    width = help_width()
    topics = [*TOPICS.items(), ("--as-json", _ALL_FLAGS)]
    topics.insert(1, ("ERROR_KIND", _ERROR_KIND))
    return "\n\n".join(
        [
            wrapped("headgate makes very large numbers of HTTP requests with a bounded number in flight.", width),
            "usage: headgate VERB ...",
            listed([*VERBS.items(), ("help", HELP)], width),
            f"{wrapped(_GROUPS, width)}\n{listed(listing(), width)}",
            f"{wrapped(_TOPICS, width)}\n{listed(topics, width)}",
            wrapped(_LETTERS, width),
            wrapped("`headgate VERB --help` explains each verb; `headgate --version` prints the version", width),
        ]
    )
