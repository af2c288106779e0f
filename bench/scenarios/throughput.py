"""Measures the requests a second of one core with a fast server, compared with other clients."""

from collections.abc import Iterator, Sequence
from typing import Final

from harness import columns, findings, in_turn, tables
from harness.findings import Finding
from harness.in_turn import Series
from harness.nginx import nginx
from harness.trial import Trial, median_ratio, right
from scenarios import Bench

NAME: Final = "throughput"
_TITLE: Final = "Throughput: nginx on one core, the client on another"
_NONE, _PARQUET = "headgate, none", "headgate, parquet"
_REFERENCES: Final = ("wrk", "oha", "aiohttp", "floor", _NONE)
_TARGETS: Final = (
    (_NONE, "wrk", {64: 1, 1000: 1, 10000: 1}),
    (_NONE, "oha", {64: 1, 1000: 1, 10000: 1}),
    (_NONE, "aiohttp", {64: 8, 1000: 8, 10000: 8}),
    (_PARQUET, "wrk", {1000: 0.95}),
    (_PARQUET, _NONE, {1000: 0.85}),
)
LEAST_PER_CONNECTION: Final = 3
"""The least requests on a connection: with fewer, a trial would mostly measure making connections."""
_BEFORE_RATIOS: Final = (columns.REQUESTS_PER_S, columns.RANGE)
_AFTER_RATIOS: Final = (columns.CPU_US, columns.CLIENT_BUSY, columns.SERVER_BUSY, columns.PEAK_MB, columns.TRIALS)


def run(bench: Bench) -> Iterator[Trial]:
    """Measures all clients in turn, at each concurrency."""
    with nginx(bench.cores.server) as server:
        for concurrency in bench.concurrencies:
            series = Series(
                scenario=NAME,
                concurrency=concurrency,
                rounds=bench.rounds,
                seconds=bench.seconds,
                least=concurrency * LEAST_PER_CONNECTION,
            )
            yield from in_turn.trials(series, bench.rivals, server, bench.cores)


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns a table for each concurrency."""
    at = {c: [trial for trial in trials if trial.concurrency == c] for c in sorted({t.concurrency for t in trials})}
    targets = [
        tables.at_least(f"{client} / {reference}, c = {c:,}", median_ratio(at[c], client, reference), bound)
        for client, reference, bounds in _TARGETS
        for c, bound in bounds.items()
        if c in at
    ]
    parts = [f"### {concurrency:,} in flight\n\n{_table(own)}" for concurrency, own in at.items()]
    return findings.of_trials(_TITLE, targets, "\n\n".join(parts), trials)


def _table(trials: Sequence[Trial]) -> str:
    head = ["client", *_BEFORE_RATIOS, *(f"/ {reference}" for reference in _REFERENCES), *_AFTER_RATIOS]
    names = sorted({trial.client for trial in trials}, key=lambda name: -(_per_s(trials, name) or 0))
    return tables.table(head, [_row(trials, name) for name in names])


def _per_s(trials: Sequence[Trial], name: str) -> float | None:
    return tables.median(trial.requests_per_s for trial in right(trials) if trial.client == name)


def _row(trials: Sequence[Trial], name: str) -> list[str]:
    own = [trial for trial in trials if trial.client == name]
    ratios = [tables.number(median_ratio(trials, name, reference), ".2f") for reference in _REFERENCES]
    return [name, *columns.figures(own, *_BEFORE_RATIOS), *ratios, *columns.figures(own, *_AFTER_RATIOS)]
