"""Measures the cost of a different host for each row: many hosts in turn, compared with one."""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Final

from harness import columns, command, findings, in_turn, servers, tables
from harness.findings import Finding
from harness.in_turn import Series
from harness.many_hosts import HOSTS
from harness.servers import ServerError
from harness.trial import Trial, cpu_s_per_request, median_ratio
from rivals.headgate import Headgate

ONE: Final = "one host"
MANY: Final = f"{HOSTS:,} hosts in turn"
_LEAST_RATIO: Final = 0.9
_MOST_CPU: Final = 1.11
_LEAST_ROWS: Final = 20 * HOSTS
_COLUMNS: Final = (columns.CLIENT_BUSY, columns.SERVER_BUSY, columns.CONNECTIONS, columns.TRIALS)
_NOTE: Final = f"""\
One core for headgate, one for `headgate serve`, which listens at every loopback address. The URLs stand in a file and
are all of one length; nothing is kept. Ten idle connections are kept for each request in flight. So with 64 in flight,
the connection to a host is closed before its turn comes again, and the figures of {HOSTS:,} hosts are those of making a
connection for each request, as the column of connections says. `make bench-hosts` has longer lists."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures for each concurrency a warm-up, then rounds of both."""
    cores = command.two_cores("hosts")
    one = Headgate(arguments.headgate, "none", label=ONE, hosts=1)
    many = dataclasses.replace(one, label=MANY, hosts=HOSTS)
    if why := one.missing():
        raise ServerError(why)
    servers.raise_open_files(max(*arguments.concurrency, HOSTS))
    labels = {rival.name: rival.label for rival in (one, many)}
    trials: list[Trial] = []
    with servers.many_hosts_server(arguments.headgate, cores.server) as server:
        for concurrency in arguments.concurrency:
            series = Series(
                scenario="hosts",
                concurrency=concurrency,
                rounds=arguments.rounds,
                seconds=arguments.seconds,
                least=_LEAST_ROWS,
            )
            made = in_turn.trials(series, (one, many), server, cores)
            trials += (dataclasses.replace(trial, client=labels[trial.client]) for trial in made)
    return finding(trials)


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns targets and rows for each concurrency."""
    targets = []
    rows = []
    for concurrency in dict.fromkeys(trial.concurrency for trial in trials):
        own = [trial for trial in trials if trial.concurrency == concurrency]
        requests_ratio = median_ratio(own, MANY, ONE)
        cpu_ratio = median_ratio(own, MANY, ONE, figure=cpu_s_per_request)
        beside = f"{MANY} / {ONE}, c = {concurrency:,}"
        targets += [
            tables.at_least(f"requests/s, {beside}", requests_ratio, _LEAST_RATIO),
            tables.at_most(f"CPU a request, {beside}", cpu_ratio, _MOST_CPU, "times", form=".2f"),
        ]
        rows += [
            _row(ONE, own, (1.0, 1.0)),
            _row(MANY, own, (requests_ratio, cpu_ratio)),
        ]
    head = ["", "in flight", columns.REQUESTS_PER_S, columns.RANGE, "ratio", columns.CPU_US, "ratio", *_COLUMNS]
    text = f"{_NOTE}\n\n{tables.table(head, rows)}"
    return findings.of_trials(f"{HOSTS:,} hosts in turn beside one host", targets, text, trials)


def _row(label: str, trials: Sequence[Trial], ratios: tuple[float | None, float | None]) -> list[str]:
    own = [trial for trial in trials if trial.client == label]
    requests_ratio, cpu_ratio = (tables.number(ratio, ".2f") for ratio in ratios)
    return [
        label,
        f"{own[0].concurrency:,}",
        *columns.figures(own, columns.REQUESTS_PER_S, columns.RANGE),
        requests_ratio,
        *columns.figures(own, columns.CPU_US),
        cpu_ratio,
        *columns.figures(own, *_COLUMNS),
    ]
