"""Measures the cost of a task with each way, compared with the lowest cost of a separate task."""

import argparse
from collections.abc import Sequence
from itertools import product
from typing import Final

from bounded import runs
from bounded.runs import Plan, Run
from bounded.spy import Seen
from bounded.ways import AMAP, AS_COMPLETED, FLOOR, LIBRARIES, Way
from bounded.workloads import AT_ONCE, YIELDS
from harness import tables
from harness.findings import Finding
from harness.in_turn import rounds
from harness.tables import Target

_MOST_OF_FLOOR: Final = {YIELDS: 1.2, AT_ONCE: 1.4}
_LEAST_TIMES_FASTER: Final = 5.0
_NOTES: Final = """\
- The floor is `create_task`, refilled from the done-callback of the task before; it drops the results and keeps no
  promise.
- Fixed workers make no task for an item, so none can be cancelled, or have a context of its own: not comparable.
  Where tasks return at once, the first worker does all the work.
- anyio's `amap` takes no limit: all tasks begin at once, and the limit of the table means nothing to it.
- aiometer and aiostream begin tasks so slowly that few of these short ones ever run at once, whatever the limit.
- `limited_as_completed` of 2017, as it was first published, looks at its futures turn after turn: it uses a
  whole core while it waits.
- Where tasks sleep, the limit sets a pace that none can beat: at limit 100 at least 10 µs a task by the clock."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Checks each way, and measures rounds of all for each workload and limit."""
    wrong: list[str] = []
    seen: dict[tuple[str, int], Seen | None] = {}
    for way, limit in product(arguments.ways, arguments.limit):
        seen[way.name, limit], found = runs.check(way, limit, uvloop=arguments.uvloop)
        wrong += [f"{way.name}, limit {limit:,}: {mistake}" for mistake in found]
    made = [
        runs.attempt(
            Plan(
                way=way,
                workload=workload,
                limit=limit,
                tasks=runs.tasks_for(way, workload, limit, arguments.seconds),
                round=round_,
                uvloop=arguments.uvloop,
            )
        )
        for workload, limit in product(arguments.workload, arguments.limit)
        for round_, way in rounds(arguments.ways, arguments.rounds)
    ]
    parts = [_NOTES]
    for workload, limit in product(arguments.workload, arguments.limit):
        table = runs.cost_table(_at(made, workload, limit), arguments.ways, FLOOR)
        parts += [f"### Each task {workload}, limit {limit:,}", table]
    parts += ["### What each way keeps", _kept(seen, arguments.ways, arguments.limit)]
    return Finding(
        title="What a bounded task costs",
        targets=targets(made, arguments.limit),
        text="\n\n".join(parts),
        raw=runs.raw(made),
        wrong=wrong + runs.wrong_list(made),
    )


def targets(made: Sequence[Run], limits: Sequence[int]) -> list[Target]:
    """Returns the targets: relative to the floor at each limit, and to each library where it does best."""
    found = [
        tables.at_most(
            f"{ours.name} / the floor, {workload}, limit {limit:,}",
            runs.median_ratio(_at(made, workload, limit), ours, FLOOR),
            most,
            "times",
            form=".2f",
        )
        for ours in (AS_COMPLETED, AMAP)
        for workload, most in _MOST_OF_FLOOR.items()
        for limit in limits
    ]
    for ours, library in product((AS_COMPLETED, AMAP), LIBRARIES):
        ratios = [
            runs.median_ratio(_at(made, workload, limit), library, ours)
            for workload in _MOST_OF_FLOOR
            for limit in limits
        ]
        least = min((ratio for ratio in ratios if ratio is not None), default=None)
        found.append(tables.at_least(f"{library.name} / {ours.name}, the lowest of all", least, _LEAST_TIMES_FASTER))
    return found


def _at(made: Sequence[Run], workload: str, limit: int) -> list[Run]:
    return [run for run in made if (run.workload, run.limit) == (workload, limit)]


def _kept(seen: dict[tuple[str, int], Seen | None], ways: Sequence[Way], limits: Sequence[int]) -> str:
    """Returns a table of the observations of a spy, in runs that are not timed."""
    largest = max(limits)
    head = [
        "",
        *(f"most at once, limit {limit:,}" for limit in limits),
        f"items taken ahead, limit {largest:,}",
        "order of results",
    ]
    rows = []
    for way in ways:
        own = [seen[way.name, limit] for limit in limits]
        last = seen[way.name, largest]
        rows.append(
            [
                way.name,
                *(tables.ABSENT if one is None else f"{one.most_running:,}" for one in own),
                "all" if last and last.most_taken == last.tasks else f"{last.most_taken:,}" if last else tables.ABSENT,
                last.order if last else tables.ABSENT,
            ]
        )
    return tables.table(head, rows)
