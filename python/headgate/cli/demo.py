"""`headgate demo`: fetches from a server in this process, and shows the results, in a few seconds."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from headgate import _format
from headgate._checks import whole
from headgate.cli import _ending, _replace
from headgate.cli._parser import Parser
from headgate.jobs._as_flag import as_flag

DEFAULT_ROWS: Final = 100_000
DEFAULT_OUTPUT: Final = "demo-results"
_ROWS_SHOWN: Final = 5

_EXAMPLES: Final = """\
examples:
  headgate demo
  headgate demo --rows 1000000 -o /var/tmp/demo"""

_NEXT: Final = """
what to try next:
  {command} show {output} --columns row,status,elapsed_us,body
  {command} serve --port 8080 --delay 0..3s       and in another terminal:
  {command} fetch 'http://127.0.0.1:8080/[1-10000]' -o results -c 1000"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line and runs the demonstration."""
    values = parser().read(arguments)
    if values is None:
        return 0
    rows = values.whole("rows", DEFAULT_ROWS, whole(1))
    output = values.text("output")
    values.check()
    # The directory that the user named may contain results of a real job.
    if not _replace.confirm_replace(output):
        print("nothing was done", file=sys.stderr)
        return _replace.EXIT_NOT_REPLACED
    return _demonstrate(rows, DEFAULT_OUTPUT if output is None else output)


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "demo",
        usage="[flags]",
        description="Starts a local server on a free port, fetches from it, and shows the results.",
        examples=_EXAMPLES,
    )
    made.group("what to do")
    made.value("rows", "--rows", metavar="N", text=f"how many URLs to fetch (default: {_format.count(DEFAULT_ROWS)})")
    made.value("output", "-o", "--output", metavar="OUT", text=f"where the results go (default: {DEFAULT_OUTPUT})")
    return made


def _demonstrate(rows: int, output: str) -> int:
    from headgate.cli import show  # noqa: PLC0415 - as above
    from headgate.jobs import _display, _report, _run, _server  # noqa: PLC0415 - not for the help
    from headgate.jobs._job_options import FetchOptions  # noqa: PLC0415 - not for the help

    server = _server.start_server()
    try:
        url = f"http://{server.address}/[1-{rows}]"
        print(f"fetching {url} into {output}", file=sys.stderr)
        options = FetchOptions(input=url, output=output, if_exists="overwrite")
        display = _display.display_for(show=True)
        summary, stopped_by = _run.run(options, display, signals=_ending.SIGNALS, spell=as_flag)
    finally:
        server.stop()
    code = _ending.report_end(summary, stopped_by, report=_report.report(summary, as_flag))
    if summary.failure is not None:
        return code
    print(file=sys.stderr)
    show.show(output, _ROWS_SHOWN)
    command = "python -m headgate" if Path(sys.argv[0]).name == "__main__.py" else sys.argv[0]
    print(_NEXT.format(command=command, output=output))
    return code
