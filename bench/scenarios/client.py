"""Measures the requests a second of Python clients with one core, with the status and length of every response."""

from collections.abc import Iterator, Sequence
from typing import Final

from harness import columns, findings, in_turn, tables
from harness.findings import Finding
from harness.in_turn import Series, print_trial
from harness.nginx import nginx
from harness.trial import Plan, Trial, attempt, cpu_s_per_request, median_ratio, right
from rivals import Rival, python_programs
from rivals.headgate import Headgate
from rivals.python_programs import BATCHES, FETCH_MANY
from scenarios import Bench
from scenarios.throughput import LEAST_PER_CONNECTION

NAME: Final = "client"
MEMORY: Final = "memory"
"""The cell in which memory is measured."""
_TITLE: Final = "Clients in Python"
_MOST_IN_FLIGHT: Final = 1000
_ENGINE: Final = "headgate, none"
_TARGETS: Final = (
    (FETCH_MANY, _ENGINE, 0.78),
    (BATCHES, _ENGINE, 0.9),
    (FETCH_MANY, "aiohttp", 8.0),
    (FETCH_MANY, "pyreqwest", 1.5),
    (FETCH_MANY, "pyreqwest, uvloop", 1.5),
    (FETCH_MANY, "pycurl, multi", 1.0),
)
_REFERENCES: Final = (_ENGINE, "aiohttp", "pyreqwest", "pycurl, multi")
_LONGEST_S: Final = 1800.0
_MOST_GROWTH_MB: Final = 8
_NOTE: Final = """\
`headgate, none` is the engine's own rate: `headgate fetch`, which makes the URLs itself and keeps nothing. The
clients in Python also make URLs and check responses, on the same core."""


def run(bench: Bench) -> Iterator[Trial]:
    """Measures all clients in turn, at each concurrency, and then the memory with many requests."""
    clients = [client for client in python_programs.CLIENTS if not client.missing()]
    rivals: list[Rival] = [Headgate(bench.headgate, "none"), *clients]
    with nginx(bench.cores.server) as server:
        for concurrency in (c for c in bench.concurrencies if c <= _MOST_IN_FLIGHT):
            series = Series(
                scenario=NAME,
                concurrency=concurrency,
                rounds=bench.rounds,
                seconds=bench.seconds,
                least=concurrency * LEAST_PER_CONNECTION,
            )
            yield from in_turn.trials(series, rivals, server, bench.cores)
        for client in (client for client in clients if client.name in {FETCH_MANY, BATCHES}):
            for rows in bench.client_rows:
                plan = Plan(
                    scenario=NAME,
                    round=1,
                    concurrency=_MOST_IN_FLIGHT,
                    requests=rows,
                    seconds=0.0,
                    longest_s=_LONGEST_S,
                    cell=MEMORY,
                )
                trial = attempt(plan, client, server, bench.cores)
                print_trial(trial)
                yield trial


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns a table for each concurrency, and the memory of few and many requests."""
    timed = [trial for trial in trials if trial.cell != MEMORY]
    counted = [trial for trial in right(trials) if trial.cell == MEMORY]
    at = {c: [trial for trial in timed if trial.concurrency == c] for c in sorted({t.concurrency for t in timed})}
    targets = [
        tables.at_least(f"{client} / {reference}, c = {c:,}", median_ratio(own, client, reference), bound)
        for c, own in at.items()
        for client, reference, bound in _TARGETS
    ]
    parts = [_NOTE, *(f"### {c:,} in flight\n\n{_table(own)}" for c, own in at.items())]
    if counted:
        targets += [
            tables.at_most(
                f"{name}: growth from few requests to many", _growth_mb(counted, name), _MOST_GROWTH_MB, "MB"
            )
            for name in dict.fromkeys(trial.client for trial in counted)
        ]
        parts.append(f"### Memory\n\n{_memory(counted)}")
    return findings.of_trials(_TITLE, targets, "\n\n".join(parts), trials)


def _table(trials: Sequence[Trial]) -> str:
    head = ["client", columns.REQUESTS_PER_S, *(f"/ {name}" for name in _REFERENCES), columns.CPU_US]
    head += [f"/ {_ENGINE}", columns.SERVER_BUSY, columns.PEAK_MB, columns.TRIALS]
    names = sorted({trial.client for trial in trials}, key=lambda name: -(_per_s(trials, name) or 0))
    return tables.table(head, [_row(trials, name) for name in names])


def _row(trials: Sequence[Trial], name: str) -> list[str]:
    own = [trial for trial in trials if trial.client == name]
    return [
        name,
        *columns.figures(own, columns.REQUESTS_PER_S),
        *(tables.number(median_ratio(trials, name, reference), ".2f") for reference in _REFERENCES),
        *columns.figures(own, columns.CPU_US),
        tables.number(median_ratio(trials, name, _ENGINE, cpu_s_per_request), ".2f"),
        *columns.figures(own, columns.SERVER_BUSY, columns.PEAK_MB, columns.TRIALS),
    ]


def _per_s(trials: Sequence[Trial], name: str) -> float | None:
    return tables.median(trial.requests_per_s for trial in right(trials) if trial.client == name)


def _growth_mb(trials: Sequence[Trial], name: str) -> float | None:
    peaks = {trial.requests: trial.peak_rss_bytes for trial in trials if trial.client == name}
    return tables.mb(peaks[max(peaks)] - peaks[min(peaks)]) if len(peaks) > 1 else None


def _memory(trials: Sequence[Trial]) -> str:
    head = ["client", "requests", "peak MB", "requests/s"]
    return tables.table(
        head,
        [
            [t.client, f"{t.requests:,}", f"{tables.mb(t.peak_rss_bytes):.1f}", f"{t.requests_per_s:,.0f}"]
            for t in trials
        ],
    )
