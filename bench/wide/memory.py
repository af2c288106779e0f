"""Measures the memory of an idle connection: a list of many hosts with many idle connections, and with few."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Final

from harness import columns, command, findings, in_turn, servers, tables
from harness.findings import Finding
from harness.nginx import nginx
from harness.servers import ServerError
from harness.trial import Plan, Trial, attempt, right
from rivals.headgate import Headgate

_HOSTS: Final = 9_000
_IDLE: Final = (500, 8_500)
_CONCURRENCY: Final = 100
_LONGEST_S: Final = 120.0
_MOST_BYTES: Final = 4_096
_MOST_CONNECTIONS: Final = 12_000
_NOTE: Final = f"""\
{_HOSTS:,} hosts once each, with {_IDLE[0]:,} or {_IDLE[1]:,} idle connections kept: the difference in peak memory.
It has what an idle connection needs in this process; the kernel's sockets are not in it."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of both."""
    cores = command.two_cores("memory")
    few = Headgate(arguments.headgate, "none", hosts=_HOSTS)
    if why := few.missing():
        raise ServerError(why)
    servers.raise_open_files(_MOST_CONNECTIONS)
    both = [
        dataclasses.replace(few, label=f"{idle:,} idle", flags=("--max-idle-connections", str(idle))) for idle in _IDLE
    ]
    trials = []
    with nginx(cores.server, everywhere=True) as server:
        for round_, rival in in_turn.rounds(both, arguments.rounds):
            plan = Plan(
                scenario="memory",
                round=round_,
                concurrency=_CONCURRENCY,
                requests=_HOSTS,
                seconds=1.0,
                longest_s=_LONGEST_S,
            )
            trials.append(attempt(plan, rival, server, cores))
    return finding(trials)


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns the bytes of each additional connection."""
    peaks = []
    for idle in _IDLE:
        own = [trial for trial in right(trials) if trial.client == f"{idle:,} idle, none"]
        peaks.append(tables.median(trial.peak_rss_bytes for trial in own))
    few, many = peaks
    bytes_each = None if few is None or many is None else (many - few) / (_IDLE[1] - _IDLE[0])
    targets = [tables.at_most("memory of an idle plain connection", bytes_each, _MOST_BYTES, "bytes", form=".0f")]
    lines = []
    for client in dict.fromkeys(trial.client for trial in trials):
        own = [trial for trial in trials if trial.client == client]
        lines.append([client, *columns.figures(own, columns.PEAK_MB, columns.TRIALS)])
    text = f"{_NOTE}\n\n{tables.table(['', columns.PEAK_MB, columns.TRIALS], lines)}"
    return findings.of_trials("Memory of idle connections", targets, text, trials)
