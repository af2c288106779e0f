"""`headgate retry`: the failed rows of a job, once more."""

from collections.abc import Sequence

from headgate._options import RetryOptions
from headgate.cli import fetch
from headgate.cli._parser import Parser


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, asks the rows again, says what became of them."""
    parser = Parser("retry", usage="OUT [flags]", description="Asks failed rows again.", examples="")
    parser.argument("output", "OUT", "the directory of a job")
    values = parser.read(arguments)
    if values is None:
        return 0
    options = RetryOptions(output=values.argument("output"))
    from headgate import _display, _job, _report  # noqa: PLC0415 - not for the help

    summary, stopped_by = _job.run(options, _display.display_for(show=True), signals=fetch.SIGNALS)
    fetch.tell(_report.report(summary))
    if summary.failure is not None:
        fetch.tell(f"error: {summary.failure.message}")
    return fetch.exit_code(summary, stopped_by)
