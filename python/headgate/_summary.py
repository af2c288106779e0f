"""Figures of a job while it runs (`Snapshot`) and at its end (`Summary`). The engine returns both as JSON."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, Self

from headgate import _format
from headgate._facts import Fact, by_number, rows_by_outcome, table
from headgate._figures import Sentence, read
from headgate._message import Message, Spell, as_keyword

MIN_STALL_S: Final = 1.0
"""Shorter stalls of the process are not reported."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Bottleneck:
    """The bottleneck of a job.

    Attributes:
        kind: A word for programs: `concurrency`, `machine`, `input`, `read_ahead`, `output`, `decoding`, `memory`,
            `dns`, `connecting`, `streams`, `files`, `rate`, `cost`, `budget`, `host_rate`, `host_concurrency`, `pause`,
            `circuit_breaker`, `network`, `credentials`, `retries`, `paused`, `failures` or `nothing`.
        text: A sentence for users, with figures and the option that can help.
    """

    kind: str
    text: Sentence


@dataclass(frozen=True, kw_only=True, slots=True)
class Latency:
    """Times of attempts from their start to the last byte, in microseconds.

    They do not include time in which an attempt waited for memory, or for a thread to decode a body.
    """

    p50: int
    p90: int
    p99: int
    max: int


@dataclass(frozen=True, kw_only=True, slots=True)
class LatencyCounts:
    """Times of the last attempts of rows as a cumulative histogram: two of them give those of the time in between.

    Attributes:
        up_to_us: Upper bounds in microseconds, each with the number of times up to it.
        count: The number of all times.
        sum_us: Their sum.
    """

    up_to_us: tuple[tuple[int, int], ...]
    count: int
    sum_us: int


@dataclass(frozen=True, kw_only=True, slots=True)
class ErrorExample:
    """An example of the rows that failed with one error kind.

    Attributes:
        row: The index of the row.
        url: The URL of its request.
        message: The error, in the same words for each row with this cause.
        detail: The part that is specific to this row: an address, a time, a line of the input.
        option: The keyword of the option that can help, if one can.
    """

    row: int
    url: str
    message: str
    detail: str | None = None
    option: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a job ended before its input did.

    Attributes:
        kind: `usage`, `input`, `output` or `internal`.
        message: What happened, and what the user can do.
        pieces: The message, in which options are data.
    """

    kind: str
    message: Sentence
    pieces: Message = field(default=(), repr=False, compare=False)


@dataclass(frozen=True, kw_only=True, slots=True)
class JobFigures:
    """The figures of a resumable job, over all of its runs.

    >>> job = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results").job
    >>> job.done, job.succeeded, job.failed, job.finished
    (3, 3, 0, True)

    Attributes:
        rows: Rows of the input, or of the trial, if known.
        max_rows: Rows of a trial, which continues with a larger `max_rows` or without; `None`: all rows are read.
        done: Rows that have ended and are written: `succeeded` and `failed`.
        rows_before: Rows that were done before this run.
        succeeded: Rows with a complete response whose status is not in `fail_on`.
        failed: The other rows that have ended.
        errors: Failed rows by error kind, or by status as `status:503`.
        finished: Whether every row of the input, or of the trial, is done.
        resumable: Whether the same command resumes the job where this run has ended.
        previous_killed_at: When the process before this one last wrote its heartbeat, in UTC, if it was killed, or its
            machine stopped; `None`: it ended in order, or there was none.
    """

    __module__ = "headgate"

    rows: int | None
    max_rows: int | None
    done: int
    rows_before: int
    succeeded: int
    failed: int
    errors: dict[str, int]
    finished: bool
    resumable: bool
    previous_killed_at: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SlowestHost:
    """A host whose rows take long.

    Attributes:
        host: The hostname.
        rows: Rows of the host that wait, as far as they have been read.
        in_flight: Attempts of the host that have started and have not ended.
        time_left_s: Seconds that its rows take at least, if known.
        throttled_by: Why none of its rows may start now, as in `Summary.throttled_s`.
    """

    host: str
    rows: int
    in_flight: int
    time_left_s: float | None = None
    throttled_by: str | None = None

    def __str__(self) -> str:
        """Returns the figures in words.

        >>> str(SlowestHost(host="shop.example", rows=26, in_flight=2))
        'shop.example has 26 rows at 2 in flight'
        """
        waiting = _format.plural(self.rows, "row")
        return f"{_format.printable(self.host)} has {waiting} at {_format.count(self.in_flight)} in flight"


@dataclass(frozen=True, kw_only=True, slots=True)
class CommitFigures:
    """A commit of a job.

    Attributes:
        number: It increases with each commit; 0: there is none yet.
        done: Rows that are done.
        failed: Those of them that failed.
        parts: Files of results.
        bytes: The size of these files.
    """

    number: int
    done: int
    failed: int
    parts: int
    bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The progress of a running job.

    Latencies are in microseconds; unknown figures are `None`.

    >>> with headgate.start("http://127.0.0.1:8080/[1-3]", "results") as run:
    ...     snapshot = run.statistics()
    >>> snapshot.rows <= 3, snapshot.concurrency
    (True, 256)

    Attributes:
        phase: `starting`, `running`, `waiting` (nothing has been in flight for a second, because something throttles
            every row or the input has no row yet), `paused`, `stopping`, `merging` (all rows are done, and small files
            are merged), `keeping` (replaced files, for readers) or `ended`.
        elapsed_s: Seconds since this run began.
        rows: Rows that this run has done: `succeeded` and `failed`.
        rows_known: Rows of the input.
        fraction: The done fraction of the whole job, from 0 to 1.
        succeeded: Rows with a complete response whose status is not in `fail_on`.
        failed: The other rows that have ended.
        in_flight: Attempts that have started and have not ended.
        concurrency: The limit of requests in flight.
        requests_per_s: Rows per second, in the last seconds.
        requests_per_s_mean: Rows per second since this run began.
        p50_us: Half of the attempts took no longer.
        p99_us: 99 % of the attempts took no longer.
        latencies: The times of attempts as a histogram, for figures over time.
        received_bytes: Bytes of bodies as they arrived, before decoding.
        time_left_s: Seconds until the whole job or its slowest host is done, at this rate.
        slowest_host: The host that `time_left_s` depends on, if it takes longer than the other rows.
        slowest_hosts: The hosts whose rows take the longest, the slowest first: at most 10.
        throttled_by: What throttles every row now, so that nothing starts.
        throttled_s: Seconds in which nothing could start, by what throttled it, as in `Summary`.
        attempts: Attempts that were sent and have ended.
        lanes_waiting: Lanes, of which there is one for each request that may be in flight, that wait now for something
            else than a server, by what that is: `input` (no row may start, or none has been read), `sink` (results are
            written), `memory`, `dns`, `decoder`, `rate_limiter`, `stream`, `files` or `connection`.
        pauses: How often hosts requested a pause, by hostname; `others` beyond the first ones.
        paused_hosts: Hosts that are paused now.
        breakers_opened: How often circuit breakers opened, by hostname; `others` beyond the first ones.
        open_breakers: Hosts whose circuit breakers are open now.
        network_down_s: Seconds for which no host could be reached, while that throttles the run.
        commit: The newest commit of the job.
        since_last_row_s: Seconds since a row last ended, or since the start.
        unresponsive_s: Seconds for which the event loops have not run, though they should have.
        writing_s: Seconds for which the current write of results takes; `None`: nothing is being written.
        set: The options that were set while the job ran, as text.
        requests: Requests of all runs of the job, counted as for `max_requests`.
        max_requests: The budget of requests, if there is one.
        cost: What rows have cost in all runs of the job; `None`: they have no costs.
        max_cost: The budget of costs, if there is one.
        stopping: Whether the run is being stopped.
        bottleneck: The bottleneck.
        rows_before: Rows that were done by earlier runs of the job.
        stalled_s: Seconds in which the process was stopped, or its machine suspended.
    """

    __module__ = "headgate"

    elapsed_s: float
    rows: int
    rows_known: int | None
    fraction: float | None
    succeeded: int
    failed: int
    in_flight: int
    concurrency: int
    requests_per_s: float
    requests_per_s_mean: float
    p50_us: int
    p99_us: int
    received_bytes: int
    time_left_s: float | None
    stopping: bool
    bottleneck: Bottleneck
    phase: str = "running"
    latencies: LatencyCounts = LatencyCounts(up_to_us=(), count=0, sum_us=0)
    rows_before: int = 0
    slowest_host: SlowestHost | None = None
    slowest_hosts: tuple[SlowestHost, ...] = ()
    throttled_by: str | None = None
    throttled_s: dict[str, float] = field(default_factory=dict)
    attempts: int = 0
    lanes_waiting: dict[str, int] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)
    paused_hosts: int = 0
    breakers_opened: dict[str, int] = field(default_factory=dict)
    open_breakers: int = 0
    network_down_s: float | None = None
    commit: CommitFigures | None = None
    since_last_row_s: float = 0.0
    unresponsive_s: float = 0.0
    writing_s: float | None = None
    set: dict[str, str] = field(default_factory=dict)
    requests: int = 0
    max_requests: int | None = None
    cost: int | None = None
    max_cost: int | None = None
    stalled_s: float = 0.0

    @classmethod
    def from_json(cls, text: str, spell: Spell = as_keyword) -> Self:
        """Reads the JSON of the engine; `spell` spells options in its messages."""
        return read(cls, json.loads(text), spell)

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return table("how far it is", progress_facts(self, "rows"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Summary:
    """The figures of one run of a job; `job` has those of all of its runs.

    >>> summary = headgate.fetch("http://127.0.0.1:8080/status/[200-202]", "results")
    >>> summary.succeeded, summary.failed, summary.statuses
    (3, 0, {200: 1, 201: 1, 202: 1})
    >>> summary.has_failed_rows, summary.stopped_early
    (False, False)

    Attributes:
        rows: Rows that have ended: `succeeded` and `failed`.
        succeeded: Rows with a complete response whose status is not in `fail_on`.
        failed: Rows with an error, or with a status in `fail_on`.
        rows_known: Rows of the input, if known.
        abandoned: Requests in flight that were dropped after `shutdown_timeout`; they are not in the results.
        statuses: Succeeded rows by HTTP status.
        errors: Failed rows by error kind, or by status as `status:503`.
        error_examples: One failed row for each error kind, and for up to 16 statuses.
        elapsed_s: Wall time in seconds.
        requests_per_s: Rows by wall time.
        latency_us: Times from the start of an attempt to the last byte, in microseconds.
        received_bytes: Bytes of bodies as they arrived, before decoding.
        peak_rss_bytes: The largest resident memory that this process has had.
        cpu_s: CPU seconds that this process used for the job.
        bottleneck: The bottleneck of the job.
        output: The directory of the results; `-` for standard output; empty if they were not kept.
        interrupted: Whether it was stopped before the end of its input.
        reader_gone: Whether it was stopped because the reader of standard output is gone.
        retries: Attempts that were followed by a retry, by error kind, or by status as `status:503`.
        not_retried: Rows that were not retried, because the server may have acted on them and could not recognise a
            second request.
        resent: Requests that were resent within an attempt, because the connection turned out to be closed.
        headers_skipped: Headers that were left out of results, because they break the rules for headers.
        requests: Requests of all runs of the job, counted as for `max_requests`.
        max_requests: The budget of requests, if there is one.
        cost: What rows have cost in all runs of the job; `None`: they have no costs.
        max_cost: The budget of costs, if there is one.
        throttled_s: Seconds in which nothing could start, by what throttled it: `rate`, `cost`, `budget`, `host_rate`,
            `host_concurrency`, `pause`, `circuit_breaker`, `network`, `backoff`, `retry_budget`, `head_of_line`,
            `credentials` or `paused`.
        pauses: How often hosts requested a pause, by hostname; `others` beyond the first ones.
        stalled_s: Seconds in which the process was stopped, or its machine suspended. Timeouts of requests are paused
            meanwhile, and failures that this causes do not count against a host.
        stopped_by: Why the job stopped itself, if it did: too many rows failed, the network was down, or a budget was
            used up.
        notes: Further remarks for the user.
        failure: Why it ended before its input did, if it did.
        job: The job over all of its runs; `None` for standard output and the format `none`, which have no job.
    """

    __module__ = "headgate"

    rows: int
    succeeded: int
    failed: int
    statuses: dict[int, int]
    errors: dict[str, int]
    error_examples: dict[str, ErrorExample]
    elapsed_s: float
    requests_per_s: float
    latency_us: Latency
    received_bytes: int
    peak_rss_bytes: int
    cpu_s: float
    bottleneck: Bottleneck
    output: str
    interrupted: bool
    notes: tuple[Sentence, ...]
    failure: Failure | None
    rows_known: int | None = None
    abandoned: int = 0
    reader_gone: bool = False
    retries: dict[str, int] = field(default_factory=dict)
    not_retried: int = 0
    resent: int = 0
    requests: int = 0
    max_requests: int | None = None
    cost: int | None = None
    max_cost: int | None = None
    headers_skipped: int = 0
    throttled_s: dict[str, float] = field(default_factory=dict)
    pauses: dict[str, int] = field(default_factory=dict)
    stalled_s: float = 0.0
    stopped_by: Sentence | None = None
    job: JobFigures | None = None

    @property
    def has_failed_rows(self) -> bool:
        """Whether any row failed: of the whole job if there is one, otherwise of this run."""
        return (self.failed if self.job is None else self.job.failed) > 0

    @property
    def stopped_early(self) -> bool:
        """Whether the run was stopped, or stopped itself, before the end of its input."""
        return self.interrupted or self.stopped_by is not None

    @classmethod
    def from_json(cls, text: str, spell: Spell = as_keyword) -> Self:
        """Reads the JSON of the engine or of `to_json`; `spell` spells options in the engine's messages.

        >>> summary = headgate.fetch("http://127.0.0.1:8080/[1-3]", "results")
        >>> headgate.Summary.from_json(summary.to_json()) == summary
        True
        """
        figures = json.loads(text)
        if figures["failure"] is not None:
            figures["failure"]["pieces"] = figures["failure"]["message"]
        return read(cls, figures, spell)

    def to_dict(self) -> dict[str, Any]:
        """Returns plain dictionaries and figures under the names of the attributes.

        >>> headgate.fetch("http://127.0.0.1:8080/[1-3]", "results").to_dict()["succeeded"]
        3
        """
        figures = asdict(self)
        if self.failure is not None:
            del figures["failure"]["pieces"]  # the message has them
        return figures

    def to_json(self) -> str:
        r"""Returns the JSON that `--summary FILE` writes.

        >>> json.loads(headgate.fetch("http://127.0.0.1:8080/[1-3]", "results").to_json())["succeeded"]
        3
        """
        return json.dumps(self.to_dict(), indent=2, ensure_ascii=False, default=_format.rfc3339) + "\n"

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        how = "failed" if self.failure is not None else "stopped early" if self.stopped_early else "done"
        rows, elapsed = _format.plural(self.rows, "row"), _format.duration(self.elapsed_s)
        return table(f"{how}: {rows} in {elapsed}", self._facts())

    def _facts(self) -> Iterator[Fact]:
        if self.failure is not None:
            yield "failure", self.failure.message
        if self.stopped_by is not None:
            yield "stopped", self.stopped_by
        reasons = {kind: row.message for kind, row in self.error_examples.items()}
        yield from rows_by_outcome(self.succeeded, self.failed, self.errors, reasons=reasons)
        if self.retries:
            yield "retried", by_number(self.retries)
        if self.pauses:
            yield "pauses", by_number(self.pauses)
        yield from budget_facts(self)
        yield "requests/s", _format.count(self.requests_per_s)
        yield "latency", f"p50 {_format.latency(self.latency_us.p50)}, p99 {_format.latency(self.latency_us.p99)}"
        yield "received", _format.size(self.received_bytes)
        yield "bottleneck", self.bottleneck.text.removeprefix("bottleneck: ")
        if self.job is not None:
            yield "whole job", f"{_format.count(self.job.succeeded)} succeeded, {_format.count(self.job.failed)} failed"
        if self.output:
            yield "results", self.output
        for note in self.notes:
            yield "note", note


class _Budgets(Protocol):
    @property
    def requests(self) -> int: ...
    @property
    def max_requests(self) -> int | None: ...
    @property
    def cost(self) -> int | None: ...
    @property
    def max_cost(self) -> int | None: ...


def budget_facts(of: _Budgets) -> Iterator[Fact]:
    """Yields what a job has used of its budgets, in all of its runs."""
    if of.max_requests is not None:
        yield "requests", f"{_format.count(of.requests)} of {_format.count(of.max_requests)} in all runs"
    if of.cost is not None:
        known = "" if of.max_cost is None else f" of {_format.count(of.max_cost)}"
        yield "cost", f"{_format.count(of.cost)}{known} in all runs"


def progress_facts(snapshot: Snapshot, of: str) -> Iterator[Fact]:
    """Yields the progress of a running job or a client; `of` is what it counts, such as rows."""
    known = "" if snapshot.rows_known is None else f" of {_format.count(snapshot.rows_known)}"
    yield of, f"{_format.count(snapshot.rows_before + snapshot.rows)}{known}"
    yield "succeeded", _format.count(snapshot.succeeded)
    yield "failed", _format.count(snapshot.failed)
    yield from running_facts(snapshot)


def running_facts(snapshot: Snapshot) -> Iterator[Fact]:
    """Yields what a running job does now."""
    yield "in flight", f"{_format.count(snapshot.in_flight)} of {_format.count(snapshot.concurrency)}"
    yield "requests/s", _format.count(snapshot.requests_per_s)
    yield "latency", f"p50 {_format.latency(snapshot.p50_us)}, p99 {_format.latency(snapshot.p99_us)}"
    if snapshot.time_left_s is not None:
        slowest = "" if snapshot.slowest_host is None else f": {snapshot.slowest_host}"
        yield "time left", f"{_format.duration(snapshot.time_left_s)}{slowest}"
    yield "bottleneck", snapshot.bottleneck.text.removeprefix("bottleneck: ")
