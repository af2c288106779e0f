"""Measures one request after another, from a thread and from within the loop."""

import argparse
from collections.abc import Sequence
from typing import Final

from callers import measuring, runs
from callers.clients import FROM_THREADS, IN_LOOPS, OURS, SOCKET, THREADSAFE
from callers.runs import Run
from harness import tables
from harness.findings import Finding
from harness.tables import Target

_MOST_TIMES_SOCKET: Final = 1.3
_MOST_BEYOND_US: Final = 15.0
_MOST_OF_THREADSAFE: Final = 0.5


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of all clients."""
    chosen = [client for client in (*FROM_THREADS, *IN_LOOPS) if client.name in arguments.chosen]
    made = measuring.over_http(chosen, [1], arguments)
    head = ["", "called from", "µs each", "median", "99 %", "CPU µs each", f"median / {SOCKET.name}", "runs"]
    figures = [(measuring.wall_us, ".1f"), (measuring.median_us, ".1f"), (measuring.p99_us, ".0f")]
    rows = []
    for client in chosen:
        *cells, counted = runs.row(runs.of(made, client, 1), [*figures, (measuring.cpu_us, ".1f")])
        beside = runs.ratio(made, (client, SOCKET), 1, measuring.median_us)
        rows.append([client.name, client.caller, *cells, tables.number(beside, ".2f"), counted])
    return Finding(
        title="One request after another",
        targets=targets(made),
        text=tables.table(head, rows),
        raw=runs.raw(made),
        wrong=runs.wrong_list(made),
    )


def targets(made: Sequence[Run]) -> list[Target]:
    """Returns the targets of `headgate.Client`: close to a blocking socket, and half of `run_coroutine_threadsafe`."""
    bound = tables.median_of_pairs(
        runs.of(made, OURS, 1),
        runs.of(made, SOCKET, 1),
        lambda ours, floor: ours.median_us / (_MOST_TIMES_SOCKET * floor.median_us + _MOST_BEYOND_US),
    )
    allowed = f"({_MOST_TIMES_SOCKET:g} x {SOCKET.name} + {_MOST_BEYOND_US:g} µs)"
    return [
        tables.at_most(f"median µs, {OURS.name} / {allowed}", bound, 1.0, "times", ".2f"),
        *(
            tables.at_most(
                f"median µs, {OURS.name} / {other.name}",
                runs.ratio(made, (OURS, other), 1, measuring.median_us),
                _MOST_OF_THREADSAFE,
                "times",
                ".2f",
            )
            for other in THREADSAFE
        ),
    ]
