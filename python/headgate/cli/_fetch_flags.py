"""The command line of `headgate fetch`: its flags, and what they mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate.cli import _option_flags
from headgate.cli._parser import Parser
from headgate.jobs._job_options import FetchOptions
from headgate.jobs._options import FETCH

_DESCRIPTION = """\
Makes one request for each row of INPUT and writes what became of each into OUT.

INPUT is a file: .txt (a URL on each line), .csv, .tsv, .ndjson, .jsonl (these also .gz or .zst), .parquet;
or - for lines on standard input; or a URL with ranges and sets as in curl: http://host/[1-1000]/{a,b}

A job in a directory survives interrupts, crashes and full disks: the same command goes on where it stopped,
and every row ends as one row of the results. What was answered in the last seconds before a crash
(--commit-every-s) is asked again. A job that reads standard input or a pipe, or writes with -o -, cannot be
gone on with."""

_EXAMPLES = """\
examples:
  headgate fetch urls.txt -o results
  headgate fetch pages.parquet -o results -c 1000 --keep id
  headgate fetch 'http://127.0.0.1:8080/[1-100000]' -o results --fresh
  headgate fetch rows.csv -o - -H 'Accept: application/json' | jq .status

exit codes: 0 every row was answered, 3 finished with failed rows, 2 a mistake, an unreadable input
or an unusable OUT, 130 interrupted (143 terminated): the same command goes on, 141 nobody reads
the output of -o - any more, 1 anything else"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What a command line asks for."""

    options: FetchOptions
    yes: bool
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
    source, output = values.argument("input"), values.text("output")
    options = FetchOptions(input=source, output=output, **_option_flags.read(values, FETCH, source=source))
    summary = _option_flags.summary_path(values)
    _option_flags.check(values, options)
    return Command(options=options, yes=values.switch("yes"), quiet=values.switch("quiet"), summary=summary)


def _parser() -> Parser:
    parser = Parser("fetch", usage="INPUT -o OUT [flags]", description=_DESCRIPTION, examples=_EXAMPLES)
    parser.group("input")
    parser.argument("input", "INPUT", "a file, - or a URL with ranges")
    _option_flags.add(parser, FETCH, "input")
    for group in ("request", "limits"):
        parser.group(group)
        _option_flags.add(parser, FETCH, group)
    parser.group("output")
    parser.value("output", "-o", "--output", metavar="OUT", text="a directory, or - for NDJSON on standard output")
    _option_flags.add(parser, FETCH, "output")
    parser.switch("yes", "-y", "--yes", text="do not ask whether to replace what --fresh replaces")
    _option_flags.add_progress(parser)
    return parser
