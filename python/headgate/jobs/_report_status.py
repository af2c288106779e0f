"""What is said to people of a job that was looked at."""

from collections.abc import Iterator, Sequence
from typing import Final

from headgate import _format
from headgate._facts import Fact, aligned, rows_by_outcome
from headgate.jobs._status import JobRun, JobStatus

_GAP: Final = "  "
_RUN_COLUMNS: Final = ("command", "started", "last commit", "rows", "end")


def report(status: JobStatus, width: int | None = None) -> str:
    """The status as aligned lines, without a line end after the last; runs take two lines where a table is too wide."""
    lines = [_headline(status), *aligned(_facts(status))]
    if status.runs:
        lines.extend(["", *_runs(status, width)])
    return "\n".join(_format.printable(line) for line in lines)


def _headline(status: JobStatus) -> str:
    if status.rows is None:
        return f"{_format.plural(status.done, 'row')} done, of how many is not known yet; {_state(status)}"
    share = _format.share(status.done / status.rows) if status.rows else "100 %"
    return f"{_format.part(status.done, status.rows, 'row')} done ({share}); {_state(status)}"


def _state(status: JobStatus) -> str:
    if status.running:
        doing = "paused" if status.paused else "running now"
        return doing if status.pid is None else f"{doing} (pid {status.pid})"
    if status.finished:
        return "finished"
    if status.rows == status.done:
        way_on = ": the same command does that" if status.resumable else ""
        return f"stopped before the files of results were merged{way_on}"
    if status.resumable:
        return "stopped: run the same command again to resume"
    return "stopped: it can't be resumed, because its input can't be read again"


def _facts(status: JobStatus) -> Iterator[Fact]:
    yield "input", status.input
    yield from rows_by_outcome(status)
    yield "watermark", f"{_format.count(status.watermark)}: all rows before it are done"
    yield "results", f"{_format.plural(status.parts, 'file')}, {_format.size(status.bytes)}, {status.format}"
    if status.parts_to_place and not status.running:
        files = _format.plural(status.parts_to_place, "file")
        them = "it" if status.parts_to_place == 1 else "them"
        yield "not in place", f"{files}: other readers don't see {them} before the job is run again"
    yield "started", _format.moment(status.started_at)
    if status.set:
        yield "set", status.set_as_text()
    if status.paused and not status.running:
        yield "paused", "it will start nothing before `headgate unpause`"
    if status.note is not None:
        yield "note", status.note


def _runs(status: JobStatus, width: int | None) -> Iterator[str]:
    """A line for each run, under a line of names."""
    earlier = status.run_count - len(status.runs)
    if earlier > 0:
        yield f"{_format.plural(earlier, 'run')} before these"
    last = len(status.runs) - 1
    cells = [_cells(run, running=status.running and index == last) for index, run in enumerate(status.runs)]
    table = _table([_RUN_COLUMNS, *cells])
    if width is None or max(map(len, table)) <= width:
        yield from table
        return
    for run, (command, started, committed, _, end) in zip(status.runs, cells, strict=True):
        yield f"{command}: {_format.plural(run.rows, 'row')}, {end}"
        yield f"{_GAP}started      {started}"
        yield f"{_GAP}last commit  {committed}"


def _cells(run: JobRun, *, running: bool) -> Sequence[str]:
    end = "ended" if run.ended else "running" if running else "killed or failed"
    return (run.command, _format.moment(run.started_at), _format.moment(run.committed_at), _format.count(run.rows), end)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    rows_at = _RUN_COLUMNS.index("rows")
    lines = []
    for row in rows:
        cells = (
            f"{cell:>{width}}" if index == rows_at else f"{cell:<{width}}"
            for index, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(_GAP.join(cells).rstrip())
    return lines
