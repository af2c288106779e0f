"""Makes rounds over HTTP, and reads figures of runs for tables."""

import argparse
from collections.abc import Iterable, Sequence
from itertools import product

from callers import runs
from callers.clients import Client
from callers.runs import Load, Run
from callers.served import BODY, HERE, served
from harness import command, in_turn, servers, tables


def over_http(chosen: Sequence[Client], at_once: Iterable[int], arguments: argparse.Namespace) -> list[Run]:
    """Makes rounds of all clients for each number of callers: the server on the first core, the client on the last."""
    if not chosen:
        return []
    cores = command.two_cores("requests of callers")
    cells = list(at_once)
    servers.raise_open_files(max(cells))
    with served(cores.server) as server:
        loads = [
            Load(
                host=HERE,
                port=server.port,
                body=BODY,
                at_once=count,
                seconds=arguments.seconds,
                most=arguments.requests,
            )
            for count in cells
        ]
        entrants = in_turn.rounds(chosen, arguments.rounds)
        return [
            runs.attempt(client, load, round_, cores.client, server)
            for load, (round_, client) in product(loads, list(entrants))
        ]


def section(made: Sequence[Run], chosen: Sequence[Client], reference: Client, at_once: int) -> str:
    """Returns a table of all clients at one number of callers, relative to a reference."""
    figures = [(per_s, ",.0f"), (cpu_us, ".1f"), (median_us, ",.0f"), (p99_us, ",.0f")]
    rows = []
    for client in chosen:
        first, *others = runs.row(runs.of(made, client, at_once), figures)
        beside = runs.ratio(made, (client, reference), at_once, per_s)
        rows.append([client.name, first, tables.number(beside, ".2f"), *others])
    head = ["", "requests/s", f"/ {reference.name}", "CPU µs a request", "median µs", "99 % µs", "runs"]
    return tables.table(head, rows)


def per_s(run: Run) -> float:
    """Returns the requests a second of all callers."""
    return run.per_s


def wall_us(run: Run) -> float:
    """Returns the mean time that a caller waits."""
    return run.wall_us


def median_us(run: Run) -> float:
    """Returns the median time that a caller waits."""
    return run.median_us


def p99_us(run: Run) -> float:
    """Returns the 99th percentile of the time that a caller waits."""
    return run.p99_us


def cpu_us(run: Run) -> float:
    """Returns the CPU time of the client's process for a request."""
    return run.cpu_us
