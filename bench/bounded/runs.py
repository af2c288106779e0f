"""Runs of a way in processes of their own, and the figures of many such runs."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
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
"""A run is at least so many times the limit: its beginning and its end are not what is measured."""
_SLEEPERS_TAKE: Final = 3
"""Times what others take, about."""
_TAIL: Final = 400
"""Characters of standard error that are quoted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a run is to be; `round` is from 1."""

    way: Way
    workload: str
    limit: int
    tasks: int
    round: int
    uvloop: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """What it was.

    Attributes:
        way: Its name.
        workload: Its name.
        limit: As asked.
        tasks: How many.
        round: From 1.
        us_per_task: By the clock on the wall.
        cpu_us_per_task: Of the process, all its threads.
        peak_rss_bytes: Of the process, with interpreter and libraries.
        added_bytes: How much of it came with the tasks.
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
    """How many take about so long, in thousands."""
    per_s = way.guess_per_s / (_SLEEPERS_TAKE if workload == SLEEPS else 1)
    return max(1_000, _LEAST_LIMITS * limit, round(per_s * seconds / 1_000) * 1_000)


def attempt(plan: Plan) -> Run:
    """Makes a run on the last core that we may use."""
    warm_up = max(_LEAST_WARM_UP, _WARM_UP_LIMITS * plan.limit)
    said, wrong = _ask(plan.way, plan.limit, plan.tasks, plan.uvloop, workload=plan.workload, warm_up=warm_up)
    expected = plan.tasks * (plan.tasks - 1) // 2 if plan.way.collects else 0
    if not wrong and said["total"] != expected:
        wrong = f"the sum of the results is {said['total']:,}, not {expected:,}"
    run = Run(
        way=plan.way.name,
        workload=plan.workload,
        limit=plan.limit,
        tasks=plan.tasks,
        round=plan.round,
        us_per_task=1e6 * said.get("elapsed_s", 0.0) / plan.tasks,
        cpu_us_per_task=1e6 * said.get("cpu_s", 0.0) / plan.tasks,
        peak_rss_bytes=said.get("peak_rss_bytes", 0),
        added_bytes=said.get("added_bytes", 0),
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
    """What a way does in a run that is not timed, and all that is wrong with it."""
    said, wrong = _ask(way, limit, _CHECK_LIMITS * limit, uvloop, check=True)
    if wrong:
        return None, [wrong]
    seen = Seen(**said)
    return seen, mistakes(way, limit, seen)


def mistakes(way: Way, limit: int, seen: Seen) -> list[str]:
    """Others may hand out in any order; what they say of their bound and of their results has to be true."""
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


def _ask(way: Way, limit: int, tasks: int, uvloop: bool, **more: Any) -> tuple[dict[str, Any], str]:  # noqa: ANN401, FBT001 - JSON
    """What the program says, and what went wrong with it."""
    plan = {"way": way.name, "limit": limit, "tasks": tasks, "uvloop": uvloop, "check": False, **more}
    core = max(os.sched_getaffinity(0))
    ended = processes.run([sys.executable, str(_PROGRAM), json.dumps(plan)], core=core, longest_s=_LONGEST_S)
    if ended.code != 0:
        end = f"killed by signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        return {}, f"{end}: {ended.stderr[-_TAIL:].strip()}"
    return json.loads(ended.stdout), ""


def right(runs: Iterable[Run]) -> list[Run]:
    """Those that count."""
    return [run for run in runs if not run.wrong]


def of(runs: Iterable[Run], way: Way) -> list[Run]:
    """Those of one way."""
    return [run for run in runs if run.way == way.name]


def median_us(runs: Iterable[Run], way: Way) -> float | None:
    """Microseconds of CPU a task."""
    return tables.median(run.cpu_us_per_task for run in right(of(runs, way)))


def median_of_pairs(
    runs: Iterable[Run], references: Iterable[Run], compare: Callable[[Run, Run], float]
) -> float | None:
    """Compares the two runs of each round, and takes the median: `harness.trial.median_ratio` says why.

    Both have one run for each round. `None`: no round has both.
    """
    beside = {run.round: run for run in right(references)}
    return tables.median(compare(run, beside[run.round]) for run in right(runs) if run.round in beside)


def median_ratio(runs: Sequence[Run], way: Way, reference: Way) -> float | None:
    """CPU of a way over that of a reference: the clock would count what else the core had to do."""
    return median_of_pairs(
        of(runs, way), of(runs, reference), lambda one, other: one.cpu_us_per_task / other.cpu_us_per_task
    )


def cost_table(runs: Sequence[Run], ways: Sequence[Way], reference: Way) -> str:
    """A row for each way, the fastest first."""
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
    """For JSON."""
    return [asdict(run) for run in runs]


def wrong_list(runs: Iterable[Run]) -> list[str]:
    """Every run that does not count, and why."""
    return [
        f"{run.way}, {run.workload}, limit {run.limit:,}, round {run.round}: {run.wrong}" for run in runs if run.wrong
    ]
