"""A hundred million requests into Parquet on two cores, the server's included, killed twice and resumed.

wrk runs before and after, with the same server, connections and core, and shows what the machine can do meanwhile.
"""

import argparse
import dataclasses
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from harness import command, processes, read_back, servers, tables
from harness.findings import Finding
from harness.nginx import Nginx, nginx
from harness.read_back import Everything
from harness.servers import ServerError
from harness.trial import Cores, Plan, Trial, attempt, right
from rivals.headgate import Headgate
from rivals.wrk import Wrk

_ROWS: Final = 100_000_000
_RUNS: Final = 3
"""The runs of the job, of which the last is not killed."""
_SAMPLE_S: Final = 2.0
_LONGEST_S: Final = 4 * 3_600.0
_LEAST_RATIO: Final = 0.95
_MOST_MB: Final = 50.0
_LINES: Final = 12
"""Rows of the table of memory over time; saved results have all samples."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Sample:
    """A sample of a run.

    Attributes:
        run: From 1.
        at_s: The time since its start.
        requests: The requests that the server has seen of all runs.
        rss_bytes: The memory of the run now.
        peak_rss_bytes: The peak memory of the run so far.
    """

    run: int
    at_s: float
    requests: int
    rss_bytes: int
    peak_rss_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A start of the command.

    Attributes:
        run: From 1.
        code: The exit code, or the negative number of the signal.
        seconds: The wall time of the process.
        cpu_s: The CPU time of the process.
        requests: The requests that the server has seen of this run.
        peak_rss_bytes: The peak memory of the process.
    """

    run: int
    code: int
    seconds: float
    cpu_s: float
    requests: int
    peak_rss_bytes: int


@dataclass(kw_only=True, slots=True)
class Story:
    """The records of the measurement.

    Attributes:
        rows: The rows of the job.
        runs: In their order.
        samples: In their order.
        wrk: The trials of wrk before and after.
        result_bytes: The size of all files of results.
        wrong: Every promise that was broken.
    """

    rows: int
    runs: list[Run] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    wrk: list[Trial] = field(default_factory=list)
    result_bytes: int = 0
    wrong: list[str] = field(default_factory=list)


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures wrk, the job, and wrk again; then checks every row."""
    cores = command.two_cores("large")
    for why in (Headgate(command.HEADGATE, "parquet").missing(), Wrk().missing()):
        if why:
            raise ServerError(why)
    servers.raise_open_files(arguments.concurrency)
    story = Story(rows=arguments.rows or _ROWS)
    with nginx(cores.server) as server, tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch:
        out = Path(scratch, "results")
        story.wrk.append(_wrk(1, arguments, server, cores))
        url = f"{server.url}/[1-{story.rows}]"
        fetch = [str(command.HEADGATE), "fetch", url, "-o", str(out), "-c", str(arguments.concurrency), "-q"]
        _runs(story, fetch, server, cores)
        story.wrk.append(_wrk(2, arguments, server, cores))
        story.result_bytes = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
        print(f"large: {tables.mb(story.result_bytes):.0f} MB of results; looking for each row", file=sys.stderr)
        story.wrong += mistakes(story)
        try:
            story.wrong += missing_rows(read_back.everything(out, story.rows), story.rows)
        except subprocess.CalledProcessError as error:  # Hours of measuring must not be lost.
            story.wrong.append(f"the results cannot be read: {error}")
    return finding(story)


def _wrk(round_: int, arguments: argparse.Namespace, server: Nginx, cores: Cores) -> Trial:
    seconds: float = arguments.wrk_seconds
    plan = Plan(
        scenario="large",
        round=round_,
        concurrency=arguments.concurrency,
        requests=1,
        seconds=seconds,
        longest_s=seconds + servers.SETTLED_S,
    )
    trial = attempt(plan, Wrk(), server, cores)
    print(f"large: wrk, {trial.requests_per_s:,.0f} requests/s {trial.wrong}", file=sys.stderr)
    return trial


def _runs(story: Story, fetch: Sequence[str], server: Nginx, cores: Cores) -> None:
    first = servers.settle(server).requests
    before = first
    for number in range(1, _RUNS + 1):
        kill_at = story.rows * number // _RUNS if number < _RUNS else None
        begun = time.perf_counter()
        next_s = 0.0

        def is_due(pid: int, number: int = number, kill_at: int | None = kill_at, begun: float = begun) -> bool:
            """Takes a sample, and returns whether the job is to be killed now."""
            nonlocal next_s
            at_s = time.perf_counter() - begun
            if at_s < next_s:
                return False
            next_s = at_s + _SAMPLE_S
            requests = server.counted().requests - first
            sample = Sample(
                run=number,
                at_s=at_s,
                requests=requests,
                rss_bytes=processes.rss_bytes(pid),
                peak_rss_bytes=processes.peak_rss_bytes(pid),
            )
            story.samples.append(sample)
            return kill_at is not None and requests >= kill_at

        ended = processes.run(fetch, core=cores.client, longest_s=_LONGEST_S, is_due=is_due)
        seen = servers.settle(server).requests
        run = Run(
            run=number,
            code=ended.code,
            seconds=ended.wall_s,
            cpu_s=ended.cpu_s,
            requests=seen - before,
            peak_rss_bytes=ended.peak_rss_bytes,
        )
        before = seen
        story.runs.append(run)
        print(
            f"large: run {number}: {_end(run)} after {run.seconds:.0f} s and {run.requests:,} requests, "
            f"{tables.mb(run.peak_rss_bytes):.1f} MB {ended.stderr.strip()}",
            file=sys.stderr,
        )


def mistakes(story: Story) -> list[str]:
    """Returns the mistakes of the runs themselves."""
    found = [f"wrk: {trial.wrong}" for trial in story.wrk if trial.wrong]
    *killed, last = story.runs
    found += [f"run {run.run} was not killed: {_end(run)}" for run in killed if run.code != -signal.SIGKILL]
    if last.code != 0:
        found.append(f"run {last.run}: {_end(last)}")
    if (requests := sum(run.requests for run in story.runs)) < story.rows:
        found.append(f"{requests:,} requests for {story.rows:,} rows")
    return found


def missing_rows(seen: Everything, rows: int) -> list[str]:
    """Returns the blocks in which a row is missing, repeated or wrong."""
    found = [] if seen.found == rows else [f"the results have {seen.found:,} rows, not {rows:,}"]
    return found + [
        f"rows {block.first:,} to {block.first + block.rows - 1:,}: {block.found:,} found, {block.distinct:,} of them "
        f"different, {block.right:,} right"
        for block in seen.blocks
        if (block.found, block.distinct, block.right) != (block.rows,) * 3
    ]


def finding(story: Story) -> Finding:
    """Returns the rate and the memory."""
    seconds = sum(run.seconds for run in story.runs)
    per_s = story.rows / seconds
    wrk_per_s = tables.median(trial.requests_per_s for trial in right(story.wrk))
    most_mb = max(tables.mb(run.peak_rss_bytes) for run in story.runs)
    again = sum(run.requests for run in story.runs) - story.rows
    text = (
        f"{story.rows:,} rows in {seconds:,.0f} s, all starts and what the kills cost included: {per_s:,.0f} rows/s; "
        f"wrk made {tables.number(wrk_per_s, ',.0f')} requests/s, the mean of before and after. {again:,} rows "
        f"were asked again. {tables.mb(story.result_bytes):,.0f} MB of results. DuckDB has found every row from 0 to "
        f"{story.rows - 1:,} once, with status 200 and its body, unless it is said below."
    )
    runs = tables.table(
        ["run", "ended", "seconds", "requests", "CPU s", "peak MB"],
        (
            [
                str(run.run),
                _end(run),
                f"{run.seconds:,.1f}",
                f"{run.requests:,}",
                f"{run.cpu_s:,.1f}",
                f"{tables.mb(run.peak_rss_bytes):.1f}",
            ]
            for run in story.runs
        ),
    )
    samples = tables.table(
        ["run", "after s", "requests of all runs", "MB", "peak MB"],
        (
            [
                str(sample.run),
                f"{sample.at_s:,.0f}",
                f"{sample.requests:,}",
                f"{tables.mb(sample.rss_bytes):.1f}",
                f"{tables.mb(sample.peak_rss_bytes):.1f}",
            ]
            for sample in story.samples[:: len(story.samples) // _LINES + 1]
        ),
    )
    return Finding(
        title=f"{story.rows:,} requests into Parquet, killed {_RUNS - 1} times",
        targets=[
            tables.at_least("rows/s / wrk's requests/s", wrk_per_s and per_s / wrk_per_s, _LEAST_RATIO),
            tables.at_most("peak memory", most_mb, _MOST_MB, "MB"),
        ],
        text=f"{text}\n\n{runs}\n\n{samples}",
        raw=list(_raw(story)),
        wrong=story.wrong,
    )


def _end(run: Run) -> str:
    return f"killed by signal {-run.code}" if run.code < 0 else f"exit code {run.code}"


def _raw(story: Story) -> Iterator[dict[str, Any]]:
    for what, records in (("wrk", story.wrk), ("run", story.runs), ("sample", story.samples)):
        yield from ({"what": what} | dataclasses.asdict(record) for record in records)
    yield {"what": "results", "rows": story.rows, "bytes": story.result_bytes}
