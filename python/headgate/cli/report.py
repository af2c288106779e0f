"""`headgate report`: writes a report on a job as one HTML page, or serves it while the job runs."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate._checks import address
from headgate.cli._exit_codes import EXIT_ERROR, EXIT_OK
from headgate.cli._parser import Parser
from headgate.jobs._option_entry import STANDARD_STREAM

_DESCRIPTION: Final = """\
Writes a report on the job in OUT as one HTML page that needs nothing else, whether the job runs or not: what was
requested, what came, why rows failed, with examples; throughput, latencies, statuses and the bottleneck over time; the
slowest and the failing hosts; and the commands to continue. A running job is not disturbed."""

_EXAMPLES: Final = """\
examples:
  headgate report results -o report.html
  headgate report results --serve 127.0.0.1:0

over time: a job stores a point each second, in _headgate/series.ndjson; of 4,000 points, pairs are merged, and the
interval doubles. Hosts and examples are read from committed results, for at most 10 s: of a larger job, they are those
of a part of its rows, which the page says."""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, and writes or serves the report."""
    values = parser().read(arguments)
    if values is None:
        return EXIT_OK
    output, file, served_at = values.argument("output"), values.text("file"), values.text("serve")
    if not output:
        values.wrong("output", "is missing: name the directory of a job")
    if served_at is not None:
        try:
            address(served_at)
        except ValueError as error:
            values.wrong("serve", str(error))
    if (file is None) == (served_at is None):
        values.wrong(
            "file",
            "is missing: name the file to write, or serve the page with --serve 127.0.0.1:0"
            if file is None
            else "excludes --serve: give one of them",
        )
    values.check()
    return _write(output, str(file)) if served_at is None else _serve(output, served_at)


def _write(output: str, file: str) -> int:
    from headgate.jobs._as_flag import as_flag  # noqa: PLC0415 - not for the help
    from headgate.jobs._job import report_of  # noqa: PLC0415 - as above
    from headgate.jobs._page import content, page  # noqa: PLC0415 - as above

    text = page(content(report_of(output, spell=as_flag)))
    if file == STANDARD_STREAM:
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))
        return EXIT_OK
    try:
        Path(file).write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        print(f"error: --output: can't write {file!r}: {error.strerror}", file=sys.stderr)
        return EXIT_ERROR
    return EXIT_OK


def _serve(output: str, served_at: str) -> int:
    from headgate.jobs._as_flag import as_flag  # noqa: PLC0415 - as above
    from headgate.jobs._page_server import LiveReport, ReportServer  # noqa: PLC0415 - as above

    report = LiveReport(output, as_flag)
    report.content()  # without a job there is nothing to serve
    with ReportServer(served_at, report.content) as server:
        print(f"report: {server.root}/ (Ctrl-C ends it)", flush=True)
        try:
            server.serve_until(lambda: False)
        except KeyboardInterrupt:
            return EXIT_OK
    return EXIT_OK


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser("report", usage="OUT -o FILE [flags]", description=_DESCRIPTION, examples=_EXAMPLES)
    made.group("what to make")
    made.argument("output", "OUT", "the directory of a job")
    made.value("file", "-o", "--output", metavar="FILE", text="the page to write; - is standard output")
    made.value(
        "serve",
        "--serve",
        metavar="HOST:PORT",
        text="serve the page at this address instead, and keep it up to date; port 0: a free one",
    )
    return made
