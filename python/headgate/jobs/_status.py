"""What a job's directory says of the job, whether it runs or not; it crosses the seam as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Self

from headgate import _format
from headgate._facts import Fact, rows_by_outcome
from headgate._html import table


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRun:
    """One run of a job.

    >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
    >>> run = headgate.Job.open("results").status().runs[-1]
    >>> run.command, run.rows, run.ended
    ('fetch', 3, True)

    Attributes:
        command: `fetch` or `retry`.
        started_at: When it began, in UTC.
        committed_at: When it last committed results, in UTC.
        rows: Rows that it did, as of then.
        ended: Whether it came to an orderly end; neither does one that was killed nor one that goes on now.
    """

    command: str
    started_at: datetime
    committed_at: datetime
    rows: int
    ended: bool

    @classmethod
    def from_dict(cls, figures: dict[str, Any]) -> Self:
        """Reads what the engine wrote."""
        for moment in ("started_at", "committed_at"):
            figures[moment] = datetime.fromisoformat(figures[moment])
        return cls(**figures)


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
        output: Its directory, as it was given.
        input: Its input, as it was given; of several files, how many there are.
        format: `parquet` or `ndjson`.
        rows: Rows of the input, where that is known.
        done: Rows that have ended and are committed: `answered` and `failed`.
        watermark: All rows before this one are done.
        answered: Rows with a whole response whose status is not in `fail_on`: those in `part-*`.
        failed: The others: those in `failed-*`.
        errors: Failed rows by kind of error, or by status as `status:503`.
        parts: Files of results.
        bytes: Their size.
        parts_to_place: Files that count and are not in their places yet: for an instant, or since a kill in the last
            steps of a commit. Until the job is run again, `Job.rows` and `headgate show` alone have their rows.
        finished: Whether every row of the input is done, and every file in its place.
        resumable: Whether the same command goes on with it; not where its input can't be read again.
        running: Whether a process writes to it now.
        pid: Which, where that is known.
        started_at: When it was begun, in UTC.
        committed_at: When results were last committed, in UTC; `None`: not yet.
        note: Something about its directory to know of, such as a damaged commit by which nothing is lost.
        set: Options that were set while it ran and hold until it ends, each with its value as text.
        paused: Whether it starts nothing until it is told to go on.
        run_count: Runs that committed results.
        runs: The last 32 of them, oldest first.
    """

    output: str
    input: str
    format: str
    rows: int | None
    done: int
    watermark: int
    answered: int
    failed: int
    errors: dict[str, int]
    parts: int
    bytes: int
    parts_to_place: int
    finished: bool
    resumable: bool
    running: bool
    pid: int | None
    started_at: datetime
    committed_at: datetime | None
    note: str | None
    set: dict[str, str]
    paused: bool
    run_count: int
    runs: tuple[JobRun, ...]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Reads what the engine or `to_json` wrote."""
        figures: dict[str, Any] = json.loads(text)
        committed_at = figures["committed_at"]
        parts = {
            "started_at": datetime.fromisoformat(figures["started_at"]),
            "committed_at": None if committed_at is None else datetime.fromisoformat(committed_at),
            "runs": tuple(JobRun.from_dict(run) for run in figures["runs"]),
        }
        return cls(**figures | parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, figures and times under the names of the attributes."""
        return asdict(self)

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        state = "paused" if self.paused else "running" if self.running else "finished" if self.finished else "stopped"
        known = "" if self.rows is None else f" of {_format.count(self.rows)}"
        return table(f"{_format.count(self.done)}{known} rows done, {state}", self._facts())

    def _facts(self) -> Iterator[Fact]:
        yield "input", self.input
        yield from rows_by_outcome(self)
        yield "results", f"{_format.plural(self.parts, 'file')}, {_format.size(self.bytes)}, {self.format}"
        yield "directory", self.output
        yield "begun", _format.moment(self.started_at)
        if self.committed_at is not None:
            yield "last commit", _format.moment(self.committed_at)
        if self.set:
            yield "set", self.set_as_text()
        if self.note is not None:
            yield "note", self.note

    def set_as_text(self) -> str:
        """What was set, in one line."""
        return ", ".join(f"{name}={value}" for name, value in self.set.items())

    def to_json(self) -> str:
        """What `headgate status --json` prints; times are texts as in RFC 3339."""
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, default=_rfc3339) + "\n"


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
