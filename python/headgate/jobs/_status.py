"""The status of a job, from its directory, and its report."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Self

from headgate import _format
from headgate._facts import Fact, aligned, rows_by_outcome, table
from headgate._figures import read
from headgate._message import Spell, as_keyword
from headgate._summary import Snapshot, budget_facts, running_facts


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRun:
    """A run of a job.

    >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
    >>> run = headgate.Job.open("results").status().runs[-1]
    >>> run.command, run.rows, run.ended
    ('fetch', 3, True)

    Attributes:
        command: `fetch` or `retry`.
        started_at: When it began, in UTC.
        committed_at: When it last committed results, in UTC.
        rows: Rows that it had finished then.
        ended: Whether it ended in order; it is false for a run that was killed or is running now.
        stopped_by: Why it stopped by itself, if it did.
        by_failures: Whether that was because its rows failed; then the next run begins with a few rows, as a probe.
    """

    __module__ = "headgate"

    command: str
    started_at: datetime
    committed_at: datetime
    rows: int
    ended: bool
    stopped_by: str | None = None
    by_failures: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class JobStatus:
    """A job as of its newest commit.

    >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
    >>> status = headgate.Job.open("results").status()
    >>> status.done, status.finished, status.running, status.set_as_text()
    (3, True, False, '')
    >>> headgate.JobStatus.from_json(status.to_json()) == status, status.to_dict()["failed"]
    (True, 0)

    Attributes:
        output: The directory of the job, as it was given.
        input: The input, as it was given; of several files, their number.
        format: `parquet` or `ndjson`.
        rows: Rows of the input, if known.
        max_rows: Rows of a trial, which continues with a larger `max_rows` or without; `None`: all rows are read.
        done: Rows that have ended and are committed: `succeeded` and `failed`.
        watermark: All rows before this one are done.
        succeeded: Rows with a complete response whose status is not in `fail_on`: those in `part-*`.
        failed: The other rows: those in `failed-*`.
        errors: Failed rows by error kind, or by status as `status:503`.
        requests: Requests of all runs, counted as for `max_requests`. After a crash, they include what was reserved.
        max_requests: The budget of requests in the last commit, if there was one.
        cost: What rows have cost in all runs, counted as `requests`; `None`: they have no costs.
        max_cost: The budget of costs in the last commit, if there was one.
        parts: Files of results.
        bytes: The size of these files.
        parts_to_place: Committed files that were not renamed to their paths yet: for an instant, or since a kill in the
            last steps of a commit. Until the next run of the job, only `Job.rows` and `headgate show` have their rows.
        finished: Whether every row of the input, or of the trial, is done, and every file was renamed to its path.
        resumable: Whether the same command resumes the job; false if its input can't be read a second time.
        state: What the job does: `starting`, `running`, `waiting`, `paused`, `stopping` or `merging`, as the process
            that runs it says (see `Snapshot.phase`); `hung`: its heartbeats have ended, or its event loops have not run
            for 5 s, or its disk has not responded for 60 s; without a process `finished` or `stopped`.
        running: Whether a process writes to the job now.
        pid: The ID of that process, if known.
        command: The command of that process: `fetch`, `retry`, `clean` or `verify`.
        heartbeat_at: When that process last wrote its progress, in UTC: it does so once a second.
        heartbeat_age_s: How long ago that was, in seconds.
        progress: The progress of its run then; rows that are done and not committed yet are counted. `None`: no process
            runs the job, it has not begun with the first row, or another version of headgate runs it.
        started_at: When the job was started, in UTC.
        committed_at: When results were last committed, in UTC; `None`: not yet.
        note: A remark on the directory, such as a damaged commit that loses nothing.
        set: Options that were set while it ran and hold until it ends, each with its value as text.
        paused: Whether it starts nothing until `unpause`.
        run_count: Runs that committed results.
        runs: The last 32 of them, oldest first.
    """

    __module__ = "headgate"

    output: str
    input: str
    format: str
    rows: int | None
    max_rows: int | None
    done: int
    watermark: int
    succeeded: int
    failed: int
    errors: dict[str, int]
    requests: int
    max_requests: int | None
    cost: int | None
    max_cost: int | None
    parts: int
    bytes: int
    parts_to_place: int
    finished: bool
    resumable: bool
    state: str
    running: bool
    pid: int | None
    command: str | None
    heartbeat_at: datetime | None
    heartbeat_age_s: float | None
    progress: Snapshot | None
    started_at: datetime
    committed_at: datetime | None
    note: str | None
    set: dict[str, str]
    paused: bool
    run_count: int
    runs: tuple[JobRun, ...]

    @classmethod
    def from_json(cls, text: str, spell: Spell = as_keyword) -> Self:
        """Reads the JSON of the engine or of `to_json`; `spell` spells options in its messages."""
        return read(cls, json.loads(text), spell)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain dictionaries, figures and times under the names of the attributes."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        known = "" if self.rows is None else f" of {_format.count(self.rows)}"
        return table(f"{_format.count(_done(self))}{known} rows done, {self.state}", self._facts())

    def _facts(self) -> Iterator[Fact]:
        yield "input", self.input
        yield from rows_by_outcome(self.succeeded, self.failed, self.errors)
        yield from budget_facts(self)
        yield "results", f"{_format.plural(self.parts, 'file')}, {_format.size(self.bytes)}, {self.format}"
        yield "directory", self.output
        yield "started", _format.moment(self.started_at)
        if self.committed_at is not None:
            yield "last commit", _format.moment(self.committed_at)
        if self.set:
            yield "set", self.set_as_text()
        if self.note is not None:
            yield "note", self.note

    def set_as_text(self) -> str:
        """Returns the settings in one line."""
        return ", ".join(f"{name}={value}" for name, value in self.set.items())

    def to_json(self) -> str:
        """Returns the output of `headgate status --as-json`; times are texts as in RFC 3339."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, default=_format.rfc3339) + "\n"


_HUNG_AFTER_S: Final = 5.0
"""A process whose heartbeat is older hangs, as a whole."""

_GAP: Final = "  "
_RUN_COLUMNS: Final = ("command", "started", "last commit", "rows", "end")


def report(status: JobStatus, width: int | None = None) -> str:
    """Returns the status as aligned lines, without a final line end; runs take several lines if a table is too wide."""
    lines = [headline(status), *aligned(facts(status))]
    if status.runs:
        lines.extend(["", *_runs(status, width)])
    return "\n".join(_format.printable(line) for line in lines)


def headline(status: JobStatus) -> str:
    """Returns how much of the job is done, and what it does now."""
    if status.rows is None:
        return f"{_format.plural(_done(status), 'row')} done; the total is not known yet; {_state(status)}"
    share = _format.share(_done(status) / status.rows) if status.rows else "100 %"
    return f"{_format.part(_done(status), status.rows, 'row')} done ({share}); {_state(status)}"


def _done(status: JobStatus) -> int:
    """Returns how many rows are done, as far as is known: a running job has done more than it has committed."""
    progress = status.progress
    if progress is None or status.command != "fetch":
        return status.done
    return max(progress.rows_before + progress.rows, status.done)


def _state(status: JobStatus) -> str:
    if status.running:
        doing = f"{_DOING[status.state]}{_why_hung(status)}"
        return doing if status.pid is None else f"{doing} (pid {status.pid})"
    if status.finished:
        return "finished" if status.max_rows is None else "the trial is finished"
    if status.rows == status.done:
        advice = ": the same command does that" if status.resumable else ""
        return f"stopped before the files of results were merged{advice}"
    if status.resumable and _cause(status):
        return "stopped itself: run the same command again once the cause is gone"
    if status.resumable:
        return "stopped: run the same command again to resume"
    return "stopped: it can't be resumed, because its input can't be read again"


_DOING: Final = {
    "starting": "starting",
    "running": "running now",
    "waiting": "waiting",
    "paused": "paused",
    "stopping": "stopping",
    "merging": "merging files",
    "keeping": "keeping replaced files for readers",
    "hung": "NOT RESPONDING",
}


def _why_hung(status: JobStatus) -> str:
    progress, age_s = status.progress, status.heartbeat_age_s
    if status.state != "hung" or age_s is None:
        return ""
    if progress is not None and age_s <= _HUNG_AFTER_S:
        if progress.writing_s is not None and progress.writing_s > progress.unresponsive_s:
            return f": its disk has not responded for {_format.seconds(progress.writing_s)}"
        return f": its event loops have not run for {_format.seconds(progress.unresponsive_s)}"
    return f": its last heartbeat is {_format.seconds(age_s)} old; the process is stopped, or its machine or disk hangs"


def _cause(status: JobStatus) -> str | None:
    """Returns why the last run stopped by itself, if it did and no other has begun."""
    return status.runs[-1].stopped_by if status.runs and not status.running else None


def facts(status: JobStatus) -> Iterator[Fact]:
    """Yields what there is to say about the job, except its runs."""
    if cause := _cause(status):
        yield "cause", cause
    yield "input", status.input
    if status.max_rows is not None:
        rows = _format.plural(status.max_rows, "row")
        yield "trial", f"of {rows}: the same command continues it with a larger --max-rows, or without"
    yield from _running_facts(status)
    yield from rows_by_outcome(status.succeeded, status.failed, status.errors)
    yield from budget_facts(status)
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


def _running_facts(status: JobStatus) -> Iterator[Fact]:
    """Yields what the run does now, as of its last heartbeat."""
    progress = status.progress
    if progress is None:
        return
    if status.command == "retry":
        yield "retried", _format.part(progress.rows, progress.rows_known or progress.rows, "row")
    else:
        yield "committed", _format.plural(status.done, "row")
    yield from running_facts(progress)
    for host in progress.slowest_hosts[:_SHOWN_HOSTS]:
        if host.time_left_s is not None and host.time_left_s >= _MIN_LEFT_S:
            yield "slow host", f"{host}: {_format.duration(host.time_left_s)} left"
    if status.heartbeat_age_s is not None:
        yield "heartbeat", f"{_format.seconds(status.heartbeat_age_s)} ago"


_SHOWN_HOSTS: Final = 3
_MIN_LEFT_S: Final = 1.0
"""A host whose rows take less is not slow."""


def _runs(status: JobStatus, width: int | None) -> Iterator[str]:
    """Yields a line for each run, under a line of column names."""
    earlier = status.run_count - len(status.runs)
    if earlier > 0:
        yield f"{_format.plural(earlier, 'run')} before these"
    cells = run_cells(status)
    table = _table([_RUN_COLUMNS, *cells])
    if width is None or max(map(len, table)) <= width:
        yield from table
        return
    for run, (command, started, committed, _, end) in zip(status.runs, cells, strict=True):
        yield f"{command}: {_format.plural(run.rows, 'row')}, {end}"
        yield f"{_GAP}started      {started}"
        yield f"{_GAP}last commit  {committed}"


def run_cells(status: JobStatus) -> list[Sequence[str]]:
    """Returns the command, the start, the last commit, the rows and the end of each run."""
    last = len(status.runs) - 1
    return [_cells(run, running=status.running and index == last) for index, run in enumerate(status.runs)]


def _cells(run: JobRun, *, running: bool) -> Sequence[str]:
    end = "ended" if run.ended else "running" if running else "did not end"
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
