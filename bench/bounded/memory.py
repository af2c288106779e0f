"""Measures whether memory depends on the number of tasks: it must depend on the limit alone."""

import argparse
from collections.abc import Sequence
from typing import Final

from bounded import runs
from bounded.runs import Plan, Run
from bounded.ways import AMAP, AS_COMPLETED, GATHER, Way
from bounded.workloads import YIELDS
from harness import tables
from harness.findings import Finding

_LIMIT: Final = 1_000
_ROUNDS: Final = 3
_MOST_MB: Final = 3.0
_GATHERED: Final = 10
"""How many times `few` tasks semaphore and gather gets, because more would need gigabytes."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures few and many tasks with `amap` and `as_completed`, and with semaphore and gather."""
    few, many = arguments.memory_tasks
    jobs = [(way, tasks) for way in (AMAP, AS_COMPLETED) for tasks in (few, many)]
    jobs += [(GATHER, few), (GATHER, few * _GATHERED)]
    made = [
        runs.attempt(Plan(way=way, workload=YIELDS, limit=_LIMIT, tasks=tasks, round=round_, uvloop=arguments.uvloop))
        for round_ in range(1, min(arguments.rounds, _ROUNDS) + 1)
        for way, tasks in jobs
    ]
    targets = [
        tables.at_most(
            f"{way.name}, {many:,} tasks beside {few:,}", growth_mb(made, way, few, many), _MOST_MB, "MB", form="z.1f"
        )
        for way in (AMAP, AS_COMPLETED)
    ]
    head = ["", "tasks", "peak MB, median", "highest", "added MB", "runs"]
    return Finding(
        title=f"Memory, limit {_LIMIT:,}, each task {YIELDS}",
        targets=targets,
        text=tables.table(head, [_row(_job(made, way, tasks), way, tasks) for way, tasks in jobs]),
        raw=runs.raw(made),
        wrong=runs.wrong_list(made),
    )


def _job(made: Sequence[Run], way: Way, tasks: int) -> list[Run]:
    return [run for run in runs.of(made, way) if run.tasks == tasks]


def growth_mb(made: Sequence[Run], way: Way, few: int, many: int) -> float | None:
    """Returns how much more memory many tasks need than few, as the median of the rounds."""
    return tables.median_of_pairs(
        _job(made, way, many),
        _job(made, way, few),
        lambda large, small: tables.mb(large.peak_rss_bytes - small.peak_rss_bytes),
    )


def _row(own: Sequence[Run], way: Way, tasks: int) -> list[str]:
    good = runs.right(own)
    peaks = [tables.mb(run.peak_rss_bytes) for run in good]
    return [
        way.name,
        f"{tasks:,}",
        tables.number(tables.median(peaks), ".1f"),
        tables.number(max(peaks, default=None), ".1f"),
        tables.number(tables.median(tables.mb(run.added_bytes) for run in good), ".1f"),
        tables.counted(own),
    ]
