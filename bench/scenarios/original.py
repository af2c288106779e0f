"""The original experiment of this project: a server that responds after 0, 1, 2 or 3 seconds, with 1,000 in flight."""

import dataclasses
import statistics
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from harness import findings, read_back, schedule, servers, tables
from harness.findings import Finding
from harness.in_turn import print_trial
from harness.trial import Plan, Trial, attempt, right
from rivals import Load
from rivals.headgate import Headgate, results
from scenarios import Bench

NAME: Final = "original"
_TITLE: Final = "The original experiment: delays of 0 to 3 whole seconds"
_ROUNDS: Final = 3
_REQUESTS: Final = 10_000
_SLOTS: Final = 1_000
_LONGEST_DELAY_S: Final = 3
_LONGEST_S: Final = 120.0
_SIMULATIONS: Final = 200
_BIAS_S: Final = 0.06
"""Five standard errors of the mean of so many delays: a larger deviation can't come from the server."""


def run(bench: Bench) -> Iterator[Trial]:
    """Measures headgate with all results, and aiohttp, each with a new server, so that all have the same delays."""
    headgate = Headgate(bench.headgate, "parquet")
    aiohttp = [rival for rival in bench.rivals if rival.name == "aiohttp"]
    for round_ in range(1, min(bench.rounds, _ROUNDS) + 1):
        for rival in (headgate, *aiohttp):
            plan = Plan(
                scenario=NAME,
                round=round_,
                concurrency=_SLOTS,
                requests=_REQUESTS,
                seconds=0.0,
                longest_s=_LONGEST_S,
            )
            with (
                servers.delay_server(bench.headgate, bench.cores.server, f"0..{_LONGEST_DELAY_S}") as server,
                tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch,
            ):
                trial = attempt(plan, rival, server, bench.cores, Path(scratch))
                most = server.most_in_progress()
                if most > _SLOTS:
                    trial = dataclasses.replace(trial, wrong=f"{most:,} in flight at once; {trial.wrong}")
                trial = _beside_its_ideal(trial, Path(scratch)) if rival is headgate else trial
                print_trial(trial)
                yield trial


def _beside_its_ideal(trial: Trial, scratch: Path) -> Trial:
    """Returns the trial with the ideal time for exactly the delays of its requests, in the order of their starts."""
    load = Load(url="", requests=0, seconds=0, concurrency=0, scratch=scratch)
    delays_s = read_back.delays_s(results(load))
    # A client that is late by half a second or more would look like a slow server, and its ideal would be too long.
    bias_s = abs(statistics.fmean(delays_s) - _LONGEST_DELAY_S / 2) if delays_s else float("inf")
    if bias_s > _BIAS_S or max(delays_s) > _LONGEST_DELAY_S:
        return dataclasses.replace(trial, wrong=f"responses did not take as long as the server's delays; {trial.wrong}")
    return dataclasses.replace(trial, ideal_s=schedule.ideal_s(delays_s, _SLOTS))


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns a row for each client."""
    ours = [trial for trial in right(trials) if trial.ideal_s]
    over = tables.median(100 * (trial.elapsed_s / (trial.ideal_s or 1) - 1) for trial in ours)
    named = [trial for trial in ours if trial.bottleneck.startswith("bottleneck: concurrency")]
    targets = [
        tables.at_most("time above the ideal", over, 3, "%"),
        tables.at_most("memory", max((tables.mb(trial.peak_rss_bytes) for trial in ours), default=None), 80, "MB"),
        tables.at_least("share of trials that name concurrency", len(named) / len(ours) if ours else None, 1),
    ]
    simulated_s = schedule.median_ideal_s(
        requests=_REQUESTS, slots=_SLOTS, longest_s=_LONGEST_DELAY_S, simulations=_SIMULATIONS
    )
    head = ["client", "seconds", "ideal for its delays", "peak MB", "CPU s", "trials"]
    names = sorted({trial.client for trial in trials}, reverse=True)
    text = (
        f"{_REQUESTS:,} requests, {_SLOTS:,} in flight. The ideal is the time when nothing but the delays takes any: "
        f"{simulated_s:.2f} s in the median of {_SIMULATIONS} simulations, and for each trial of ours what the very "
        "delays that it met allow."
    )
    parts = [
        text,
        tables.table(head, [_row(name, [trial for trial in trials if trial.client == name]) for name in names]),
        *sorted({f"> {trial.bottleneck}" for trial in ours}),
    ]
    return findings.of_trials(_TITLE, targets, "\n\n".join(parts), trials)


def _row(name: str, trials: Sequence[Trial]) -> list[str]:
    good = right(trials)
    return [
        name,
        tables.number(tables.median(trial.elapsed_s for trial in good), ".2f"),
        tables.number(tables.median(trial.ideal_s for trial in good if trial.ideal_s), ".2f"),
        tables.number(tables.median(tables.mb(trial.peak_rss_bytes) for trial in good), ".1f"),
        tables.number(tables.median(trial.cpu_s for trial in good), ".2f"),
        tables.counted(trials),
    ]
