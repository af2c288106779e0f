"""Measures the cost of limits: without any compared with an older version, and with all of them compared with none."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Final

from harness import columns, command, findings, in_turn, many_hosts, tables
from harness.findings import Finding
from harness.in_turn import Series
from harness.nginx import nginx
from harness.servers import ServerError
from harness.trial import Trial, cpu_s_per_request, median_ratio
from rivals.headgate import Headgate

NONE, ALL, BEFORE = "no limits", "all limits", "before"
_IN_FLIGHT: Final = 1_000
_LEAST_OF_BEFORE: Final = 0.98
_LEAST_OF_NONE: Final = 0.85
_BUSY: Final = 0.8
LIMITS: Final = (
    *("--rate", "100000000/s"),
    *("--rate-per-host", "100000000/s"),
    *("--concurrency-per-host", "100000"),
    *("--cost-rate", "1000000000/s", "--cost-estimate", "body-bytes"),
    *("--retries", "3", "--total-timeout", "3600"),
)
"""Limits that never have an effect."""
_COLUMNS: Final = (
    columns.REQUESTS_PER_S,
    columns.RANGE,
    columns.CPU_US,
    columns.USER_US,
    columns.CLIENT_BUSY,
    columns.SERVER_BUSY,
    columns.PEAK_MB,
    columns.TRIALS,
)
_NOTE: Final = f"""\
nginx on one core, headgate on the other, {_IN_FLIGHT:,} in flight, nothing kept. All limits: {" ".join(LIMITS)}."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures one host and many, with all versions in turn."""
    cores = command.two_cores("cost")
    trials: list[Trial] = []
    with nginx(cores.server, addresses=many_hosts.addresses()) as server:
        for hosts in (0, many_hosts.HOSTS):
            series = Series(
                scenario="limits",
                concurrency=_IN_FLIGHT,
                rounds=arguments.rounds,
                seconds=arguments.seconds,
                least=20 * many_hosts.HOSTS,
                cell=_cell(hosts),
            )
            trials += in_turn.trials(series, list(_entrants(arguments, hosts)), server, cores)
    return finding(trials)


def _cell(hosts: int) -> str:
    return f"{hosts:,} hosts" if hosts else "one host"


def _entrants(arguments: argparse.Namespace, hosts: int) -> Iterator[Headgate]:
    entrants = [(NONE, arguments.headgate, ()), (ALL, arguments.headgate, LIMITS)]
    if arguments.before is not None:
        entrants.insert(0, (BEFORE, arguments.before.with_name("headgate"), ()))
    for label, program, flags in entrants:
        made = Headgate(program, "none", label=label, hosts=hosts, flags=flags)
        if why := made.missing():
            raise ServerError(why)
        yield made


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns the ratios of each cell."""
    targets = []
    rows: list[list[str]] = []
    before, none, all_ = (f"{label}, none" for label in (BEFORE, NONE, ALL))
    for cell in dict.fromkeys(trial.cell for trial in trials):
        own = [trial for trial in trials if trial.cell == cell]
        of_before, of_none = median_ratio(own, none, before), median_ratio(own, all_, none)
        targets += [
            tables.at_least(f"{cell}: requests/s, {NONE} / {BEFORE}", of_before, _LEAST_OF_BEFORE),
            tables.at_least(f"{cell}: requests/s, {ALL} / {NONE}", of_none, _LEAST_OF_NONE),
        ]
        for client, reference in ((before, before), (none, before), (all_, none)):
            if found := [trial for trial in own if trial.client == client]:
                ratios = (median_ratio(own, client, reference, *figure) for figure in ((), (cpu_s_per_request,)))
                rows.append(
                    [
                        cell,
                        client.removesuffix(", none"),
                        *(tables.number(ratio, ".3f") for ratio in ratios),
                        *columns.figures(found, *_COLUMNS),
                    ]
                )
    head = ["", "", "requests/s, / the one above", "CPU, / the one above", *_COLUMNS]
    text = "\n\n".join([_NOTE, *_doubts(trials), tables.table(head, rows)])
    return findings.of_trials("What limits cost", targets, text, trials)


def _doubts(trials: Sequence[Trial]) -> Iterator[str]:
    """Yields a warning if neither side was busy: another process had the cores, and ratios of requests/s are noise."""
    idle = [trial for trial in trials if max(trial.cpu_s, trial.server_cpu_s) < _BUSY * trial.wall_s]
    if idle:
        yield (
            f"**In {len(idle)} of {len(trials)} trials neither core was busy: something else was running. The ratios of"
            " requests/s say nothing; those of CPU say more.**"
        )
