"""Measures CPU and time of a call with each way, with few threads and with many."""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Final

from crossing.ways import ANYIO, OURS, STDLIB, WAYS
from harness import processes, tables
from harness.findings import Finding
from harness.in_turn import rounds
from harness.tables import Target

_PROGRAM: Final = Path(__file__).parents[1] / "portal_worker.py"
_LONGEST_S: Final = 120.0
_ALONE: Final = 1
_MOST_ALONE: Final = 1.0
_MOST_UNDER_LOAD: Final = 0.5
_TAIL: Final = 400


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run of a way in one process.

    Attributes:
        way: The name of the way.
        loop: "asyncio" or "uvloop".
        cores: The cores that the process may use.
        threads: The threads that call.
        round: The round, from 1.
        calls: The calls of all threads.
        cpu_us: CPU time of a call, of the whole process.
        wall_us: The wall time divided by the calls of all threads.
        wrong: Why the run does not count; empty if it does.
    """

    way: str
    loop: str
    cores: int
    threads: int
    round: int
    calls: int
    cpu_us: float = 0.0
    wall_us: float = 0.0
    wrong: str = ""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of all ways, for each loop, number of cores and number of threads."""
    cells = list(product(arguments.loop, arguments.cores, arguments.threads))
    made = [
        _attempt(Run(way=way, loop=loop, cores=cores, threads=threads, round=round_, calls=arguments.calls))
        for loop, cores, threads in cells
        for round_, way in rounds(list(WAYS), arguments.rounds)
    ]
    parts = []
    for loop, cores, threads in cells:
        parts += [f"### {_title(loop, cores, threads)}", _table(of(made, loop, cores, threads))]
    return Finding(
        title="What a call from a thread costs",
        targets=[target for cell in cells for target in targets(made, *cell)],
        text="\n\n".join(parts),
        raw=[asdict(run) for run in made],
        wrong=[
            f"{run.way}, {_title(run.loop, run.cores, run.threads)}, round {run.round}: {run.wrong}"
            for run in made
            if run.wrong
        ],
    )


def targets(made: Iterable[Run], loop: str, cores: int, threads: int) -> list[Target]:
    """Returns the targets: half of the CPU of other ways under load, and no more CPU for one thread alone."""
    runs = of(made, loop, cores, threads)
    most = _MOST_ALONE if threads == _ALONE else _MOST_UNDER_LOAD
    return [
        tables.at_most(
            f"{OURS} / {other}, {_title(loop, cores, threads)}", ratio(runs, OURS, other), most, "times", ".2f"
        )
        for other in (STDLIB, ANYIO)
    ]


def of(made: Iterable[Run], loop: str, cores: int, threads: int) -> list[Run]:
    """Returns the runs of one cell."""
    return [run for run in made if (run.loop, run.cores, run.threads) == (loop, cores, threads)]


def ratio(runs: Sequence[Run], way: str, other: str) -> float | None:
    """Returns the median ratio of a way's CPU to that of another in the same round."""
    own, reference = ([run for run in runs if run.way == name] for name in (way, other))
    return tables.median_of_pairs(own, reference, lambda left, right: left.cpu_us / right.cpu_us)


def _title(loop: str, cores: int, threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}, {loop}, {cores} core{'s' if cores > 1 else ''}"


def _table(runs: Sequence[Run]) -> str:
    rows = []
    for way in WAYS:
        own = [run for run in runs if run.way == way]
        good = [run for run in own if not run.wrong]
        cpu = [run.cpu_us for run in good]
        rows.append(
            [
                way,
                tables.number(statistics.median(cpu) if cpu else None, ".1f"),
                f"{min(cpu):.1f} to {max(cpu):.1f}" if cpu else tables.ABSENT,
                tables.number(ratio(runs, way, STDLIB), ".2f"),
                tables.number(tables.median(run.wall_us for run in good), ".1f"),
                tables.counted(own),
            ]
        )
    return tables.table(["", "CPU µs a call", "lowest to highest", f"/ {STDLIB}", "by the clock", "runs"], rows)


def _attempt(run: Run) -> Run:
    plan = {"way": run.way, "loop": run.loop, "threads": run.threads, "calls": run.calls}
    core = max(os.sched_getaffinity(0)) if run.cores == 1 else None
    ended = processes.run([sys.executable, str(_PROGRAM), json.dumps(plan)], core=core, longest_s=_LONGEST_S)
    if ended.code != 0:
        wrong = f"exit code {ended.code}: {ended.stderr[-_TAIL:].strip()}"
        found = Run(**(asdict(run) | {"wrong": wrong}))
    else:
        found = Run(**(asdict(run) | json.loads(ended.stdout)))
    print(
        f"{_title(run.loop, run.cores, run.threads)}, round {run.round}: {run.way}: "
        f"{found.cpu_us:.1f} µs of CPU, {found.wall_us:.1f} by the clock {found.wrong}",
        file=sys.stderr,
    )
    return found
