"""The command line of `headgate retry`: its flags, and what they mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.cli import _option_flags
from headgate.cli._parser import Parser
from headgate.jobs._job_options import RetryOptions
from headgate.jobs._options import RETRY

_DESCRIPTION = """\
Asks the failed rows of the job in OUT again. Rows that are answered now move to part-*; the others stay in failed-*,
and their attempts add up. Files are replaced by commits, one every 10 s: it may be stopped or killed like any run,
and the same command asks the rest.

A row of which no valid request can be made (invalid_request) is asked again only if --only names that.

What to ask is the job's own. Values of headers and data are not stored in it: a job that was begun with -H or -d
needs the same ones here again. Credentials it needs, too, and they may be new ones."""

_EXAMPLES = """\
examples:
  headgate retry results
  headgate retry results --only timeout,connect,status:503 -c 20
  headgate retry results --only status:5xx --timeout-s 120

exit codes: 0 no row of the job is left failed, 3 some are, 2 a mistake, or there is no job in OUT,
130 interrupted (143 terminated): the same command goes on, 1 anything else"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What a command line asks for."""

    options: RetryOptions
    quiet: bool
    summary: Path | None


def read(arguments: Sequence[str]) -> Command | None:
    """Reads a command line; `None`: the help was asked for, and has been printed.

    Raises:
        CommandLineError: It has mistakes; all of them are named.
    """
    values = _parser().read(arguments)
    if values is None:
        return None
    options = RetryOptions(output=values.argument("output"), **_option_flags.read(values, RETRY))
    summary = _option_flags.summary_path(values)
    _option_flags.check(values, options)
    return Command(options=options, quiet=values.switch("quiet"), summary=summary)


def _parser() -> Parser:
    parser = Parser("retry", usage="OUT [flags]", description=_DESCRIPTION, examples=_EXAMPLES)
    parser.group("what to ask again")
    parser.argument("output", "OUT", "the directory of the job")
    _option_flags.add(parser, RETRY, "what to ask again")
    for group in ("request", "limits", "output"):
        parser.group(group)
        _option_flags.add(parser, RETRY, group)
    _option_flags.add_progress(parser)
    return parser
