"""`headgate fetch`: the main job."""

import select
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headgate import _format
from headgate._errors import HeadgateError
from headgate.cli import _ending, _fetch_flags

if TYPE_CHECKING:
    from headgate._options import FetchOptions

EXIT_NOT_REPLACED: Final = 2
_YES: Final = ("y", "yes")


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, runs the job, says what became of it."""
    command = _fetch_flags.read(arguments)
    if command is None:
        return 0
    options = command.options
    if options.fresh and not command.yes and not _may_replace(options):
        _ending.tell("nothing was done")
        return EXIT_NOT_REPLACED
    _ending.warn_if_insecure(insecure=options.insecure)
    from headgate import _display, _report, _run  # noqa: PLC0415 - not for the help

    display = _display.display_for(show=not command.quiet, output=options.output)
    summary, stopped_by = _run.run(options, display, signals=_ending.SIGNALS)
    report = None if command.quiet or _reader_is_gone(options) else _report.report(summary)
    return _ending.end(summary, stopped_by, report=report, summary_file=command.summary)


def _may_replace(options: "FetchOptions") -> bool:
    """Asks before the rows of another job are thrown away, where somebody is there to answer."""
    if not options.output or options.output == "-" or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    from headgate._job import Job, is_job  # noqa: PLC0415 - not for the help

    try:
        status = Job.open(options.output).status()
    except HeadgateError as error:
        # Rows of a job that cannot be read may still be dear to somebody; what is no job at all, the engine judges.
        return not is_job(options.output) or _is_yes(f"{error}: replace what is there?")
    rows, begun = _format.plural(status.done, "row"), _format.moment(status.started_at)
    return not status.done or _is_yes(f"{options.output} holds {rows} of a job begun {begun}: replace them?")


def _is_yes(question: str) -> bool:
    print(_format.printable(f"{question} [y/N] "), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in _YES


def _reader_is_gone(options: "FetchOptions") -> bool:
    """Whether the pipe that took the results is closed: then the job has ended quietly."""
    if options.output != "-":
        return False
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
