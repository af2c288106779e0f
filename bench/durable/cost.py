"""What durability costs: the same jobs into Parquet by this headgate and by one from before it, in turn."""

import argparse
import dataclasses
import os
import sys
from pathlib import Path
from typing import Final

from harness import servers, tables
from harness.answers import Answer
from harness.servers import ServerError
from harness.trial import Cores, Plan, Trial, attempt, median_ratio, right
from rivals.headgate import Headgate

CONCURRENCIES: Final = (64, 1_000)
_LEAST_RATIO: Final = 0.90
_LONGEST: Final = 10
"""Times what a trial should take."""


def ask(arguments: argparse.Namespace) -> Answer:
    """Rounds of both, each begun by the other one."""
    cores = sorted(os.sched_getaffinity(0))
    now = Headgate(Path(sys.executable).with_name("headgate"), "parquet", label="now")
    before = Headgate(arguments.before.with_name("headgate"), "parquet", label="before")
    for why in (now.missing(), before.missing()):
        if why:
            raise ServerError(why)
    trials = []
    with servers.nginx(cores[0]) as nginx:
        for concurrency in CONCURRENCIES:
            requests = round(now.guess_per_s * arguments.seconds)
            for round_ in range(1, arguments.rounds + 1):
                for rival in (now, before) if round_ % 2 else (before, now):
                    plan = Plan(
                        scenario="cost",
                        round=round_,
                        concurrency=concurrency,
                        requests=requests,
                        seconds=arguments.seconds,
                        longest_s=arguments.seconds * _LONGEST,
                    )
                    trial = attempt(plan, rival, nginx, Cores(server=cores[0], client=cores[-1]))
                    trials.append(trial)
                    print(
                        f"cost: {rival.name}, c = {concurrency:,}, round {round_}: {trial.requests_per_s:,.0f} "
                        f"requests/s in {trial.elapsed_s:.1f} s {trial.wrong}",
                        file=sys.stderr,
                    )
    return _answer(trials, now.name, before.name)


def _answer(trials: list[Trial], now: str, before: str) -> Answer:
    at = {concurrency: [trial for trial in trials if trial.concurrency == concurrency] for concurrency in CONCURRENCIES}
    targets = [
        tables.at_least(f"now / before, c = {concurrency:,}", median_ratio(own, now, before), _LEAST_RATIO)
        for concurrency, own in at.items()
    ]
    head = ["", "in flight", "requests/s", "lowest to highest", "CPU µs a request", "peak MB", "trials"]
    return Answer(
        title="Cost beside the version before it",
        targets=targets,
        text=tables.table(head, [_row(name, own) for own in at.values() for name in (now, before)]),
        raw=[dataclasses.asdict(trial) for trial in trials],
        wrong=tables.mistakes(trials),
    )


def _row(name: str, trials: list[Trial]) -> list[str]:
    own = [trial for trial in trials if trial.client == name]
    good = right(own)
    rates = [trial.requests_per_s for trial in good]
    return [
        name,
        f"{own[0].concurrency:,}",
        tables.number(tables.median(rates), ",.0f"),
        f"{min(rates):,.0f} to {max(rates):,.0f}" if rates else tables.ABSENT,
        tables.number(tables.median(1e6 * trial.cpu_s / trial.requests for trial in good), ".1f"),
        tables.number(tables.median(tables.mb(trial.peak_rss_bytes) for trial in good), ".1f"),
        tables.counted(own),
    ]
