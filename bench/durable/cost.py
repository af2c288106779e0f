"""Measures the cost of durability: the same jobs into Parquet by this headgate and by an older one, in turn."""

import argparse
from collections.abc import Sequence
from typing import Final

from harness import columns, command, findings, in_turn, tables
from harness.findings import Finding
from harness.in_turn import Series
from harness.nginx import nginx
from harness.servers import ServerError
from harness.trial import Trial, median_ratio
from rivals.headgate import Headgate

CONCURRENCIES: Final = (64, 1_000)
_LEAST_RATIO: Final = 0.90
_COLUMNS: Final = (columns.REQUESTS_PER_S, columns.RANGE, columns.CPU_US, columns.PEAK_MB, columns.TRIALS)


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of both, which start in turn."""
    cores = command.two_cores("cost")
    now = Headgate(command.HEADGATE, "parquet", label="now")
    before = Headgate(arguments.before.with_name("headgate"), "parquet", label="before")
    for why in (now.missing(), before.missing()):
        if why:
            raise ServerError(why)
    trials: list[Trial] = []
    with nginx(cores.server) as server:
        for concurrency in CONCURRENCIES:
            series = Series(
                scenario="cost", concurrency=concurrency, rounds=arguments.rounds, seconds=arguments.seconds
            )
            trials += in_turn.trials(series, (now, before), server, cores)
    return _finding(trials, now.name, before.name)


def _finding(trials: Sequence[Trial], now: str, before: str) -> Finding:
    at = {concurrency: [trial for trial in trials if trial.concurrency == concurrency] for concurrency in CONCURRENCIES}
    targets = [
        tables.at_least(f"now / before, c = {concurrency:,}", median_ratio(own, now, before), _LEAST_RATIO)
        for concurrency, own in at.items()
    ]
    rows = [
        [name, f"{concurrency:,}", *columns.figures([trial for trial in own if trial.client == name], *_COLUMNS)]
        for concurrency, own in at.items()
        for name in (now, before)
    ]
    table = tables.table(["", "in flight", *_COLUMNS], rows)
    return findings.of_trials("Cost beside the version before it", targets, table, trials)
