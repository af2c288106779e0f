"""Measures the cost of each option of `amap` compared with none."""

import argparse
from typing import Final

from bounded import runs
from bounded.runs import Plan
from bounded.ways import AMAP, OPTIONS
from bounded.workloads import AT_ONCE, YIELDS
from harness.findings import Finding
from harness.in_turn import rounds

_LIMIT: Final = 1_000
_WORKLOADS: Final = (AT_ONCE, YIELDS)


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of the plain `amap` and of each option, whose value changes nothing."""
    compared = (AMAP, *OPTIONS)
    wrong = [
        f"{way.name}: {mistake}" for way in OPTIONS for mistake in runs.check(way, _LIMIT, uvloop=arguments.uvloop)[1]
    ]
    made = [
        runs.attempt(
            Plan(
                way=way,
                workload=workload,
                limit=_LIMIT,
                tasks=runs.tasks_for(way, workload, _LIMIT, arguments.seconds),
                round=round_,
                uvloop=arguments.uvloop,
            )
        )
        for workload in _WORKLOADS
        for round_, way in rounds(compared, arguments.rounds)
    ]
    parts = []
    for workload in _WORKLOADS:
        own = [run for run in made if run.workload == workload]
        parts += [f"### Each task {workload}", runs.cost_table(own, compared, AMAP)]
    return Finding(
        title=f"What an option costs, limit {_LIMIT:,}",
        targets=[],
        text="\n\n".join(parts),
        raw=runs.raw(made),
        wrong=wrong + runs.wrong_list(made),
    )
