"""Measures the peak memory of a job, which must depend on the concurrency and not on the number of rows."""

from collections.abc import Iterator, Sequence
from typing import Final

from harness import findings, tables
from harness.findings import Finding
from harness.in_turn import print_trial
from harness.nginx import nginx
from harness.trial import Plan, Trial, attempt, right
from rivals.headgate import Headgate
from scenarios import Bench

NAME: Final = "memory"
_TITLE: Final = "Peak memory of headgate"
_ROUNDS: Final = 3
_LONGEST_S: Final = 1800.0
_MOST_MB: Final = 60
"""The bound for a job into Parquet with any number of rows."""
_MANY: Final = 10_000
"""The larger number of requests in flight."""


def run(bench: Bench) -> Iterator[Trial]:
    """Measures one request, a small job, a large one, and one with many in flight."""
    none, parquet = Headgate(bench.headgate, "none"), Headgate(bench.headgate, "parquet")
    small, large = bench.memory_rows
    jobs = ((none, 1, 1), (parquet, 1000, small), (parquet, 1000, large), (none, _MANY, small))
    with nginx(bench.cores.server) as server:
        for round_ in range(1, min(bench.rounds, _ROUNDS) + 1):
            for rival, concurrency, rows in jobs:
                plan = Plan(
                    scenario=NAME,
                    round=round_,
                    concurrency=concurrency,
                    requests=rows,
                    seconds=0.0,
                    longest_s=_LONGEST_S,
                )
                trial = attempt(plan, rival, server, bench.cores)
                print_trial(trial)
                yield trial


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns a row for each job."""
    jobs = sorted({_job(trial) for trial in right(trials)}, key=lambda job: (job[1], job[2]))
    parquet = [trial for trial in right(trials) if trial.concurrency == 1000]  # noqa: PLR2004 - the two jobs to compare
    rows = sorted({trial.requests for trial in parquet})
    many = [tables.mb(trial.peak_rss_bytes) for trial in right(trials) if trial.concurrency == _MANY]
    targets = [
        tables.at_most(
            "Parquet, c = 1,000", max((tables.mb(t.peak_rss_bytes) for t in parquet), default=None), _MOST_MB, "MB"
        ),
        tables.at_most("growth from the small job to the large", _growth_mb(parquet, rows), 8, "MB"),
        tables.at_most("none, c = 10,000", max(many, default=None), 450, "MB"),
    ]
    head = ["job", "in flight", "rows", "peak MB, median", "highest", "CPU s", "trials"]
    table = tables.table(head, [_row(job, [trial for trial in right(trials) if _job(trial) == job]) for job in jobs])
    return findings.of_trials(_TITLE, targets, table, trials)


def _job(trial: Trial) -> tuple[str, int, int]:
    return trial.client, trial.concurrency, trial.requests


def _growth_mb(parquet: Sequence[Trial], rows: Sequence[int]) -> float | None:
    small = {trial.round: trial.peak_rss_bytes for trial in parquet if trial.requests == rows[0]}
    large = {trial.round: trial.peak_rss_bytes for trial in parquet if trial.requests == rows[-1]}
    if len(rows) < 2:  # noqa: PLR2004 - a difference needs both
        return None
    return tables.median(tables.mb(large[round_] - small[round_]) for round_ in small.keys() & large.keys())


def _row(job: tuple[str, int, int], trials: Sequence[Trial]) -> list[str]:
    client, concurrency, rows = job
    peaks = [tables.mb(trial.peak_rss_bytes) for trial in trials]
    return [
        client,
        f"{concurrency:,}",
        f"{rows:,}",
        tables.number(tables.median(peaks), ".1f"),
        f"{max(peaks):.1f}",
        tables.number(tables.median(trial.cpu_s for trial in trials), ".1f"),
        tables.counted(trials),
    ]
