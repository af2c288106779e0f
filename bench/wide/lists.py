"""Measures lists of many hosts, compared with one host, an older version, wrk and aiohttp."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from harness import columns, command, findings, in_turn, servers, tables
from harness.findings import Finding
from harness.many_hosts import Order
from harness.nginx import nginx
from harness.servers import ServerError
from harness.trial import Plan, Trial, attempt, median_ratio
from rivals import Rival
from rivals.headgate import Headgate
from rivals.python_programs import PythonProgram
from rivals.wrk import ConnectingWrk

_CONCURRENCY: Final = 1_000
_ROWS: Final = 300_000
_ROWS_OF_AIOHTTP: Final = 20_000
_SECONDS_OF_WRK: Final = 5.0
_LONGEST_S: Final = 300.0
_MOST_CONNECTIONS: Final = 12_000
_BEFORE: Final = "before, one host"
_LEAST_OF_BEFORE: Final = 0.98
WRK: Final = ConnectingWrk()
AIOHTTP: Final = PythonProgram(
    "aiohttp, 1,000 hosts in random order", "loop", "aiohttp@1000", ("aiohttp",), guess_per_s=3_000
)


@dataclass(frozen=True, slots=True)
class Wide:
    """A list of hosts.

    Attributes:
        hosts: The number of hosts.
        order: The order of the rows.
        rows: The number of rows, equally many for each host.
        beside: The client with which its throughput is compared.
        least: The promised ratio to that.
    """

    name: str
    hosts: int
    order: Order
    rows: int
    beside: str
    least: float


ONE: Final = "one host"
LISTS: Final = (
    Wide(ONE, 1, "in turn", _ROWS, _BEFORE, _LEAST_OF_BEFORE),
    Wide("1,000 hosts in turn", 1_000, "in turn", _ROWS, ONE, 0.9),
    Wide("1,000 hosts in random order", 1_000, "random", _ROWS, ONE, 0.85),
    Wide("10,000 hosts in random order", 10_000, "random", _ROWS, ONE, 0.55),
    Wide("100,000 hosts once each", 100_000, "random", 100_000, WRK.name, 1.0),
)
_COLUMNS: Final = (columns.CLIENT_BUSY, columns.SERVER_BUSY, columns.CONNECTIONS, columns.PEAK_MB, columns.TRIALS)
_NOTE: Final = f"""\
nginx on one core, each client on another, {_CONCURRENCY:,} requests in flight, no results kept. Hosts are addresses of
the loopback network. wrk asks one address, on a new connection for each request."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of all lists and of the clients with which they are compared."""
    cores = command.two_cores("lists")
    rivals = list(_rivals(arguments))
    for rival in rivals:
        if why := rival.missing():
            raise ServerError(f"{rival.name}: {why}")
    servers.raise_open_files(_MOST_CONNECTIONS)
    rows = {wide.name: wide.rows for wide in LISTS} | {_BEFORE: _ROWS, AIOHTTP.name: _ROWS_OF_AIOHTTP}
    trials = []
    with nginx(cores.server, everywhere=True) as server:
        for round_, rival in in_turn.rounds(rivals, arguments.rounds):
            plan = Plan(
                scenario="lists",
                round=round_,
                concurrency=_CONCURRENCY,
                requests=max(1, int(rows.get(_label(rival), 1) * arguments.share)),
                seconds=_SECONDS_OF_WRK * arguments.share,
                longest_s=_LONGEST_S,
            )
            trial = attempt(plan, rival, server, cores)
            in_turn.print_trial(trial)
            trials.append(trial)
    return finding(trials)


def _rivals(arguments: argparse.Namespace) -> Iterator[Rival]:
    for wide in LISTS:
        yield Headgate(arguments.headgate, "none", label=wide.name, hosts=wide.hosts, order=wide.order)
    if arguments.before:
        before = arguments.before.with_name("headgate")
        yield Headgate(before, "none", label=_BEFORE, hosts=1)
    yield WRK
    yield AIOHTTP


def _label(rival: Rival) -> str:
    return rival.label if isinstance(rival, Headgate) else rival.name


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns a target for each list, and a row for each client."""
    named = [(trial.client.removesuffix(", none"), trial) for trial in trials]
    clients = list(dict.fromkeys(name for name, _ in named))
    full = {name: trial.client for name, trial in named}
    ratios = {wide.name: median_ratio(trials, full.get(wide.name, ""), full.get(wide.beside, "")) for wide in LISTS}
    targets = [
        tables.at_least(f"requests/s, {wide.name} / {wide.beside}", ratios[wide.name], wide.least) for wide in LISTS
    ]
    lines = []
    for client in clients:
        own = [trial for name, trial in named if name == client]
        ratio = tables.number(ratios.get(client), ".2f")
        figures = columns.figures(own, columns.REQUESTS_PER_S, columns.RANGE, columns.CPU_US, columns.USER_US)
        lines.append([client, *figures, ratio, *columns.figures(own, *_COLUMNS)])
    head = ["", columns.REQUESTS_PER_S, columns.RANGE, columns.CPU_US, columns.USER_US, "ratio", *_COLUMNS]
    return findings.of_trials("Lists of many hosts", targets, f"{_NOTE}\n\n{tables.table(head, lines)}", trials)
