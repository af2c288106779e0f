"""The command line of `headgate fetch`: its flags, and what they mean."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from headgate import _format, _options
from headgate._options import FetchOptions
from headgate.cli._parser import Parser, Values

_DESCRIPTION = """\
Makes one request for each row of INPUT and writes what became of each into OUT.

INPUT is a file: .txt (a URL on each line), .csv, .tsv, .ndjson, .jsonl (these also .gz or .zst), .parquet;
or - for lines on standard input; or a URL with ranges and sets as in curl: http://host/[1-1000]/{a,b}"""

_EXAMPLES = """\
examples:
  headgate fetch urls.txt -o results
  headgate fetch pages.parquet -o results -c 1000 --keep id
  headgate fetch 'http://127.0.0.1:8080/[1-100000]' -o results --fresh
  headgate fetch rows.csv -o - -H 'Accept: application/json' | jq .status

exit codes: 0 every row was answered, 3 finished with failed rows, 2 a mistake, an unreadable input
or an unusable OUT, 130 interrupted, 1 anything else"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What a command line asks for."""

    options: FetchOptions
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
    for mistake in options.mistakes():
        if not values.is_wrong(mistake.option):
            values.wrong(mistake.option, mistake.message)
    command = Command(options=options, quiet=values.switch("quiet"), summary=_summary_path(values))
    values.check()
    return command


def _parser() -> Parser:
    parser = Parser("fetch", usage="INPUT -o OUT [flags]", description=_DESCRIPTION, examples=_EXAMPLES)
    _add_input(parser)
    _add_request(parser)
    _add_limits(parser)
    _add_output(parser)
    _add_progress(parser)
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
    parser.value("headers", "-H", "--header", metavar="'NAME: VALUE'", text="send this header; repeats", repeats=True)
    parser.value(
        "data",
        "-d",
        "--data",
        metavar="DATA",
        text="body of rows that bring none; @FILE reads it, @- from standard input",
    )
    parser.value(
        "user_agent", "--user-agent", metavar="TEXT", text=f"the User-Agent (default: {_options.DEFAULT_USER_AGENT})"
    )
    parser.value("cacert", "--cacert", metavar="FILE", text="trust the certificates in this PEM file, and no others")
    parser.switch(
        "insecure", "--insecure", text="do not verify certificates: anyone on the way can read and change all"
    )


def _add_limits(parser: Parser) -> None:
    parser.group("limits")
    parser.value(
        "concurrency",
        "-c",
        "--concurrency",
        metavar="N",
        text=f"requests in flight at the most (default: {_options.DEFAULT_CONCURRENCY})",
    )
    parser.value("threads", "--threads", metavar="N", text="worker threads (default: one for each core)")
    parser.value(
        "timeout_s",
        "--timeout-s",
        metavar="SECONDS",
        text=f"for one attempt, from connecting to the last byte (default: {_options.DEFAULT_TIMEOUT_S:g})",
    )
    parser.value(
        "connect_timeout_s",
        "--connect-timeout-s",
        metavar="SECONDS",
        text=f"for making a connection (default: {_options.DEFAULT_CONNECT_TIMEOUT_S:g})",
    )
    parser.value(
        "max_body_bytes",
        "--max-body-bytes",
        metavar="SIZE",
        text=f"a longer response body is a failure (default: {_size(_options.DEFAULT_MAX_BODY_BYTES)})",
    )
    parser.value(
        "grace_s",
        "--grace-s",
        metavar="SECONDS",
        text=f"for what is in flight after Ctrl-C (default: {_options.DEFAULT_GRACE_S:g})",
    )


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
    parser.switch("fresh", "--fresh", text="start over: replace what an earlier job left in OUT")
    parser.switch("no_resume", "--no-resume", text="do not go on with a job that was begun in OUT")
    parser.value(
        "part_bytes",
        "--part-bytes",
        metavar="SIZE",
        text=f"begin a new file at this size (default: {_size(_options.DEFAULT_PART_BYTES)})",
    )
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


def _add_progress(parser: Parser) -> None:
    parser.group("progress")
    parser.switch("quiet", "-q", "--quiet", text="no progress and no summary; errors are still told")
    parser.value("summary", "--summary", metavar="FILE", text="write the summary as JSON")


def _size(number: int) -> str:
    return _format.size(number).replace(".0 ", " ").replace(" ", "")


def _fetch_options(values: Values) -> FetchOptions:
    source = values.argument("input")
    output = values.text("output")
    data = _data(values, source)
    return FetchOptions(
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
        concurrency=values.whole("concurrency", _options.DEFAULT_CONCURRENCY),
        threads=values.whole_or_none("threads"),
        timeout_s=values.seconds("timeout_s", _options.DEFAULT_TIMEOUT_S),
        connect_timeout_s=values.seconds("connect_timeout_s", _options.DEFAULT_CONNECT_TIMEOUT_S),
        method=_options.method_for(values.text("method"), data),
        headers=_headers(values),
        data=data,
        max_body_bytes=values.size("max_body_bytes", _options.DEFAULT_MAX_BODY_BYTES),
        fail_on=_text(values, "fail_on", _options.DEFAULT_FAIL_ON),
        user_agent=_text(values, "user_agent", _options.DEFAULT_USER_AGENT),
        cacert=values.text("cacert"),
        insecure=values.switch("insecure"),
        grace_s=values.seconds("grace_s", _options.DEFAULT_GRACE_S),
        part_bytes=values.size("part_bytes", _options.DEFAULT_PART_BYTES),
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


def _headers(values: Values) -> list[tuple[str, str]]:
    headers = []
    for text in values.texts("headers"):
        name, colon, value = text.partition(":")
        if colon:
            headers.append((name.strip(), value.strip()))
        else:
            values.wrong("headers", f"{text!r} is no header: write 'Name: value'")
    return headers


def _data(values: Values, source: str) -> bytes | None:
    text = values.text("data")
    if text is None or not text.startswith("@"):
        return None if text is None else text.encode()
    name = text[1:]
    if name != _options.STANDARD_STREAM:
        try:
            return Path(name).read_bytes()
        except (OSError, ValueError) as error:
            values.wrong("data", f"cannot read {name!r}: {_reason(error)}")
            return b""
    if source == _options.STANDARD_STREAM:
        values.wrong("data", "@- and INPUT - cannot both read standard input")
        return b""
    return sys.stdin.buffer.read()


def _summary_path(values: Values) -> Path | None:
    """The file for the summary; that it cannot be written is better known before the job than after it."""
    text = values.text("summary")
    if text is None:
        return None
    path = Path(text)
    if not text or path.is_dir():
        values.wrong("summary", f"must be a file, not {text!r}")
    elif not path.parent.is_dir():
        values.wrong("summary", f"cannot be written: there is no directory {str(path.parent)!r}")
    elif not os.access(path if path.exists() else path.parent, os.W_OK):
        values.wrong("summary", f"cannot be written: no permission for {text!r}")
    return path


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
