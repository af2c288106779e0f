"""The command line of `headgate fetch`: its flags and their meanings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from headgate._option import OptionSet
from headgate.cli import _exit_codes, _foreign, _groups, _option_flags, _retry_hint
from headgate.cli._parser import Parser
from headgate.cli._wrapping import help_width, listed, wrapped
from headgate.jobs._job_options import FetchOptions
from headgate.jobs._options import FETCH

_DESCRIPTION: Final = """\
Makes one request for each row of INPUT and writes the results into OUT.

INPUT is a file: .txt (a URL on each line), .csv, .tsv, .ndjson, .jsonl (these also .gz or .zst), .parquet;
or a directory of them, or a pattern such as 'data/**/*.parquet'; several are read one after another;
or - for lines on standard input; or a URL with ranges and sets as in curl, http://host/[1-1000]/{a,b}

A job in a directory survives interrupts, crashes and full disks: the same command continues where the job
stopped, and every row becomes one row of the results. Requests that ended in the last seconds before a crash
(--commit-interval) are made again. A job that reads standard input or a pipe, or writes with -o -, can't be
resumed."""

_EXAMPLES: Final = """\
examples:
  headgate fetch urls.txt -o results
  headgate fetch pages.parquet -o results -c 1000 --keep id
  headgate fetch data/ -o results --keep day
  headgate fetch 'http://127.0.0.1:8080/[1-100000]' -o results --if-exists overwrite
  headgate fetch rows.ndjson -o results --bearer @token.txt
  headgate fetch rows.csv -o - -H 'Accept: application/json' | jq .status"""

_INPUT: Final = "files, directories, patterns, a URL with ranges, or - for stdin"

_COMMON: Final = (
    "output",
    "url",
    "headers",
    "bearer",
    "data",
    "json",
    "concurrency",
    "concurrency_per_host",
    "rate",
    "timeout",
    "retries",
    "keep",
    "extract",
    "max_rows",
    "if_exists",
)
"""The options that most people need, which `-h` shows."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """A command line that was read; `retry_flags` are those that a retry of the job needs again."""

    options: FetchOptions
    yes: bool
    quiet: bool
    summary: str | None
    log: Mapping[str, Any] = field(default_factory=dict)
    retry_flags: str = ""


def read(arguments: Sequence[str]) -> Command | None:
    """Reads a command line; returns `None` after printing the help.

    Raises:
        CommandLineError: It has mistakes; the message has all of them.
    """
    values = parser().read(arguments)
    if values is None:
        return None
    inputs, output = values.arguments("input"), values.text("output")
    options = FetchOptions(input=inputs, output=output, **_option_flags.read(values, FETCH, inputs=inputs))
    summary = _option_flags.summary_file(values, output)
    log = _option_flags.log_of(values)
    _option_flags.check(values, options)
    return Command(
        options=options,
        yes=values.switch("yes"),
        quiet=values.switch("quiet"),
        summary=summary,
        log=log,
        retry_flags=_retry_hint.needed_flags(values),
    )


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "fetch",
        usage="INPUT... -o OUT [flags]",
        description=_DESCRIPTION,
        examples=f"{_EXAMPLES}\n\n{_exit_codes.listing(_exit_codes.MEANINGS, help_width())}",
        elsewhere=_foreign.advice,
        short_help=_short_help,
    )
    add_job(made, FETCH)
    _option_flags.add_progress(made)
    return made


def add_job(made: Parser, options: OptionSet[Any], *, is_shown: bool = True) -> None:
    """Adds the arguments and flags of a new job, which the help shows or omits."""
    for group in _groups.GROUPS:
        if group == _groups.PROGRESS or not _option_flags.typed(options, group):
            continue
        _option_flags.start_group(made, group, is_shown=is_shown)
        if group == "input":
            made.argument("input", "INPUT", _INPUT, repeats=True)
        if group == "output":
            made.value(
                "output", "-o", "--output", metavar="OUT", text="a directory, or - for NDJSON on standard output"
            )
        _option_flags.add(made, options, group)
        if group == "redirects":
            text = "follow redirects, which is the default; --no-location follows none"
            made.switch("redirects", "-L", "--location", text=text, values=("follow", "none"))
        if group == "output":
            made.switch("yes", "-y", "--yes", text="let --if-exists overwrite replace results without asking")


def _short_help(made: Parser) -> str:
    """Returns the common flags, each on one line, and the groups."""
    width = help_width()
    by_name = {flag.dest: flag for flag in made.flags() if flag.is_shown}
    flags = [by_name[name] for name in _COMMON]
    # A default that takes words is in the whole help.
    rows = [flag.row() if " " not in flag.default else (flag.usage(), flag.text) for flag in flags]
    return "\n\n".join(
        [
            made.usage,
            wrapped(_DESCRIPTION.partition("\n\n")[0], width),
            f"the flags that most people need:\n{listed([('INPUT', _INPUT), *rows], width)}",
            f"groups of flags:\n{listed(_groups.listing(), width)}",
            wrapped(f"{_groups.SEE}; `headgate fetch --help` lists all", width),
        ]
    )
