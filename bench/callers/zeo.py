"""Measures the cost of the crossing for users of ZEO, which load one object after another."""

import argparse
from typing import Final

from callers import clients, measuring, runs
from callers.clients import Client
from callers.runs import Load
from callers.served import HERE
from callers.zeo_objects import BODY
from callers.zeo_server import zeo
from harness import command, in_turn, tables
from harness.findings import Finding

_LOADS: Final = 1_000
_OBJECTS: Final = 1_200
"""The number of objects, including those that are loaded before the clock starts."""
_LONGEST_S: Final = 30.0


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds from a thread and from within the loop, on either loop."""
    chosen = [client for client in clients.ZEO if client.name in arguments.chosen]
    cores = command.two_cores("ZEO")
    made = []
    if chosen:
        with zeo(cores.server, _OBJECTS) as port:
            load = Load(host=HERE, port=port, body=BODY, at_once=1, seconds=_LONGEST_S, most=_LOADS)
            made = [
                runs.attempt(client, load, round_, cores.client)
                for round_, client in in_turn.rounds(chosen, arguments.rounds)
            ]
    head = ["", "loop", "called from", "µs each", "lowest", "median", "CPU µs each", "median / in the loop", "runs"]
    rows = []
    for client in chosen:
        own = runs.of(made, client, 1)
        figures = [(measuring.wall_us, ".1f"), (measuring.median_us, ".1f"), (measuring.cpu_us, ".1f")]
        wall, *others, counted = runs.row(own, figures)
        lowest = min((run.wall_us for run in own if not run.wrong), default=None)
        within = runs.ratio(made, (client, _within(client)), 1, measuring.median_us)
        cells = [wall, tables.number(lowest, ".1f"), *others, tables.number(within, ".2f"), counted]
        rows.append(["ZEO", client.loop, client.caller, *cells])
    return Finding(
        title=f"ZEO: {_LOADS:,} times loadBefore of another object of {len(BODY)} bytes",
        targets=[],
        text=tables.table(head, rows),
        raw=runs.raw(made),
        wrong=runs.wrong_list(made),
    )


def _within(client: Client) -> Client:
    """Returns the client that is called within the same loop."""
    return next(one for one in clients.ZEO if (one.loop, one.caller) == (client.loop, clients.IN_THE_LOOP))
