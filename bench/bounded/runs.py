"""Runs of a way in separate processes, and the figures of many such runs."""

import json
import os
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from bounded.spy import BY_COMPLETION, BY_INPUT, Seen
from bounded.ways import Way
from bounded.workloads import SLEEPS
from harness import processes, tables

_PROGRAM: Final = Path(__file__).parents[1] / "tasks_worker.py"
_LONGEST_S: Final = 300.0
_WARM_UP_LIMITS: Final = 3
_LEAST_WARM_UP: Final = 3_000
_CHECK_LIMITS: Final = 4
_LEAST_LIMITS: Final = 5
"""A run has at least this many times the limit of tasks, so that its start and its end matter little."""
_SLEEPERS_TAKE: Final = 3
"""About how many times longer than other tasks sleeping ones take."""
_TAIL: Final = 400
"""Characters of standard error in messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The plan of a run; `round` counts from 1."""

    way: Way
    workload: str
    limit: int
    tasks: int
    round: int
    uvloop: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The figures of a run.

    Attributes:
        way: The name of the way.
        workload: The name of the workload.
        limit: The limit.
        tasks: The number of tasks.
        round: The round, from 1.
        us_per_task: Wall time of a task.
        cpu_us_per_task: CPU time of a task, of all threads of the process.
        peak_rss_bytes: Peak memory of the process, including interpreter and libraries.
        added_bytes: The part of the peak memory that the tasks added.
        wrong: Why this run does not count; empty if it does.
    """

    way: str
    workload: str
    limit: int
    tasks: int
    round: int
    us_per_task: float = 0.0
    cpu_us_per_task: float = 0.0
    peak_rss_bytes: int = 0
    added_bytes: int = 0
    wrong: str = ""


def tasks_for(way: Way, workload: str, limit: int, seconds: float) -> int:
    """Returns how many tasks take about this long, in thousands."""
    per_s = way.guess_per_s / (_SLEEPERS_TAKE if workload == SLEEPS else 1)
    return max(1_000, _LEAST_LIMITS * limit, round(per_s * seconds / 1_000) * 1_000)


def attempt(plan: Plan) -> Run:
    """Makes a run on the last available core."""
    warm_up = max(_LEAST_WARM_UP, _WARM_UP_LIMITS * plan.limit)
    found, wrong = _start(plan.way, plan.limit, plan.tasks, plan.uvloop, workload=plan.workload, warm_up=warm_up)
    expected = plan.tasks * (plan.tasks - 1) // 2 if plan.way.collects else 0
    if not wrong and found["total"] != expected:
        wrong = f"the sum of the results is {found['total']:,}, not {expected:,}"
    run = Run(
        way=plan.way.name,
        workload=plan.workload,
        limit=plan.limit,
        tasks=plan.tasks,
        round=plan.round,
        us_per_task=1e6 * found.get("elapsed_s", 0.0) / plan.tasks,
        cpu_us_per_task=1e6 * found.get("cpu_s", 0.0) / plan.tasks,
        peak_rss_bytes=found.get("peak_rss_bytes", 0),
        added_bytes=found.get("added_bytes", 0),
        wrong=wrong,
    )
    print(
        f"{run.workload}, limit {run.limit:,}, round {run.round}: {run.way}, {run.tasks:,} tasks: "
        f"{run.us_per_task:.2f} µs each, {run.cpu_us_per_task:.2f} of CPU, "
        f"{tables.mb(run.peak_rss_bytes):.1f} MB {wrong}",
        file=sys.stderr,
    )
    return run


def check(way: Way, limit: int, *, uvloop: bool) -> tuple[Seen | None, list[str]]:
    """Returns the observations of a run that is not timed, and all mistakes."""
    found, wrong = _start(way, limit, _CHECK_LIMITS * limit, uvloop, check=True)
    if wrong:
        return None, [wrong]
    seen = Seen(**found)
    return seen, mistakes(way, limit, seen)


def mistakes(way: Way, limit: int, seen: Seen) -> list[str]:
    """Returns the mistakes of a way; only headgate's results have a required order."""
    found = []
    if seen.finished != seen.tasks:
        found.append(f"{seen.finished:,} of {seen.tasks:,} tasks ran to their end")
    if way.collects and not seen.each_once:
        found.append("not every result was handed out once")
    if way.bounded and seen.most_running > limit:
        found.append(f"{seen.most_running:,} tasks ran at once")
    order = BY_INPUT if way.ordered else BY_COMPLETION
    if way.ours and seen.order != order:
        found.append(f"results came in the order of {seen.order}, not of {order}")
    return found


def _start(way: Way, limit: int, tasks: int, uvloop: bool, **more: Any) -> tuple[dict[str, Any], str]:  # noqa: ANN401, FBT001 - JSON
    """Runs the program, and returns its figures and its error."""
    plan = {"way": way.name, "limit": limit, "tasks": tasks, "uvloop": uvloop, "check": False, **more}
    core = max(os.sched_getaffinity(0))
    ended = processes.run([sys.executable, str(_PROGRAM), json.dumps(plan)], core=core, longest_s=_LONGEST_S)
    if ended.code != 0:
        end = f"killed by signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        return {}, f"{end}: {ended.stderr[-_TAIL:].strip()}"
    return json.loads(ended.stdout), ""


def right(runs: Iterable[Run]) -> list[Run]:
    """Returns the runs that count."""
    return [run for run in runs if not run.wrong]


def of(runs: Iterable[Run], way: Way) -> list[Run]:
    """Returns the runs of one way."""
    return [run for run in runs if run.way == way.name]


def median_us(runs: Iterable[Run], way: Way) -> float | None:
    """Returns the microseconds of CPU of a task."""
    return tables.median(run.cpu_us_per_task for run in right(of(runs, way)))


def median_ratio(runs: Sequence[Run], way: Way, reference: Way) -> float | None:
    """Returns the CPU of a way divided by that of a reference: wall time would include other work of the core."""
    return tables.median_of_pairs(
        of(runs, way), of(runs, reference), lambda one, other: one.cpu_us_per_task / other.cpu_us_per_task
    )


def cost_table(runs: Sequence[Run], ways: Sequence[Way], reference: Way) -> str:
    """Returns a table with a row for each way, the fastest first."""
    head = [
        "",
        "CPU µs a task",
        "lowest to highest",
        f"/ {reference.name}",
        "by the clock",
        "peak MB",
        "added MB",
        "runs",
    ]
    measured = [way for way in ways if of(runs, way)]
    measured.sort(key=lambda way: median_us(runs, way) or float("inf"))
    return tables.table(head, [_row(runs, way, reference) for way in measured])


def _row(runs: Sequence[Run], way: Way, reference: Way) -> list[str]:
    own = of(runs, way)
    good = right(own)
    times = [run.cpu_us_per_task for run in good]
    return [
        way.name,
        tables.number(median_us(runs, way), ".2f"),
        f"{min(times):.2f} to {max(times):.2f}" if times else tables.ABSENT,
        tables.number(median_ratio(runs, way, reference), ".2f"),
        tables.number(tables.median(run.us_per_task for run in good), ".2f"),
        tables.number(tables.median(tables.mb(run.peak_rss_bytes) for run in good), ".1f"),
        tables.number(tables.median(tables.mb(run.added_bytes) for run in good), ".1f"),
        tables.counted(own),
    ]


def raw(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Returns the runs for JSON."""
    return [asdict(run) for run in runs]


def wrong_list(runs: Iterable[Run]) -> list[str]:
    """Returns every run that does not count, and why."""
    return [
        f"{run.way}, {run.workload}, limit {run.limit:,}, round {run.round}: {run.wrong}" for run in runs if run.wrong
    ]
