"""The command line of `headgate fetch`: its flags, and what they mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate import _options
from headgate._options import FetchOptions
from headgate.cli import _work_flags
from headgate.cli._parser import Parser, Values

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
or an unusable OUT, 130 interrupted (143 terminated): the same command goes on, 1 anything else"""


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
    options = _fetch_options(values)
    summary = _work_flags.summary_path(values)
    _work_flags.check(values, options)
    return Command(options=options, yes=values.switch("yes"), quiet=values.switch("quiet"), summary=summary)


def _parser() -> Parser:
    parser = Parser("fetch", usage="INPUT -o OUT [flags]", description=_DESCRIPTION, examples=_EXAMPLES)
    _add_input(parser)
    _add_request(parser)
    _work_flags.add_limits(parser)
    _add_output(parser)
    _work_flags.add_progress(parser)
    return parser


def _add_input(parser: Parser) -> None:
    parser.group("input")
    parser.argument("input", "INPUT", "a file, - or a URL with ranges")
    for dest, default in (
        ("url_column", _options.DEFAULT_URL_COLUMN),
        ("method_column", _options.DEFAULT_METHOD_COLUMN),
        ("headers_column", _options.DEFAULT_HEADERS_COLUMN),
        ("body_column", _options.DEFAULT_BODY_COLUMN),
    ):
        what = dest.removesuffix("_column").replace("url", "URL")
        flag = f"--{dest.replace('_', '-')}"
        parser.value(dest, flag, metavar="NAME", text=f"column with the {what} (default: {default})")
    parser.value("keep", "--keep", metavar="COLUMN", text="carry this column into the results; repeats", repeats=True)
    parser.value("head", "--head", metavar="N", text="do only the first N rows")


def _add_request(parser: Parser) -> None:
    parser.group("request")
    parser.value(
        "method",
        "-X",
        "--method",
        metavar="METHOD",
        text=f"method of rows that name none (default: {_options.DEFAULT_METHOD}, or "
        f"{_options.DEFAULT_METHOD_WITH_DATA} with --data)",
    )
    _work_flags.add_content(parser)
    parser.value(
        "user_agent", "--user-agent", metavar="TEXT", text=f"the User-Agent (default: {_options.DEFAULT_USER_AGENT})"
    )
    _work_flags.add_trust(parser)


def _add_output(parser: Parser) -> None:
    parser.group("output")
    parser.value("output", "-o", "--output", metavar="OUT", text="a directory, or - for NDJSON on standard output")
    parser.value(
        "format",
        "--format",
        metavar="FORMAT",
        text=f"{', '.join(_options.FORMATS)}: none counts and drops (default: {_options.DEFAULT_FORMAT})",
    )
    parser.value(
        "fail_on",
        "--fail-on",
        metavar="STATUSES",
        text=f"statuses of failed rows, or none (default: {_options.DEFAULT_FAIL_ON})",
    )
    parser.switch(
        "fresh",
        "--fresh",
        text="replace what an earlier job left in OUT, if there is a row to ask for; on a terminal it asks first",
    )
    parser.switch("yes", "-y", "--yes", text="do not ask whether to replace it")
    parser.switch("no_resume", "--no-resume", text="refuse if OUT already holds a job")
    _work_flags.add_part_size(parser)
    parser.value(
        "commit_every_s",
        "--commit-every-s",
        metavar="SECONDS",
        text=f"commit results this often: what a crash can cost (default: {_options.DEFAULT_COMMIT_EVERY_S:g})",
    )
    parser.value(
        "window",
        "--window",
        metavar="ROWS",
        text=f"rows read beyond the oldest unfinished one, at the most (default: {_options.DEFAULT_WINDOW})",
    )


def _fetch_options(values: Values) -> FetchOptions:
    source = values.argument("input")
    output = values.text("output")
    work = _work_flags.work(values, source=source)
    return FetchOptions(
        **work,
        input=source,
        output=output,
        format=_output_format(values, output),
        fresh=values.switch("fresh"),
        resume=not values.switch("no_resume"),
        url_column=_text(values, "url_column", _options.DEFAULT_URL_COLUMN),
        method_column=_text(values, "method_column", _options.DEFAULT_METHOD_COLUMN),
        headers_column=_text(values, "headers_column", _options.DEFAULT_HEADERS_COLUMN),
        body_column=_text(values, "body_column", _options.DEFAULT_BODY_COLUMN),
        keep=tuple(values.texts("keep")),
        head=values.whole_or_none("head"),
        method=_options.method_for(values.text("method"), work["data"]),
        fail_on=_text(values, "fail_on", _options.DEFAULT_FAIL_ON),
        user_agent=_text(values, "user_agent", _options.DEFAULT_USER_AGENT),
        commit_every_s=values.seconds("commit_every_s", _options.DEFAULT_COMMIT_EVERY_S),
        window=values.whole("window", _options.DEFAULT_WINDOW),
    )


def _text(values: Values, dest: str, default: str) -> str:
    text = values.text(dest)
    return default if text is None else text


def _output_format(values: Values, output: str | None) -> _options.Format:
    text = values.text("format")
    form = next((known for known in _options.FORMATS if known == text), None)
    if text is not None and form is None:
        values.wrong("format", f"must be one of {', '.join(_options.FORMATS)}, not {text!r}")
    return _options.format_for(form, output)
