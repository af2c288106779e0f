"""How many requests a second one core makes of a server that answers at once, beside other clients."""

from collections.abc import Iterator, Sequence
from typing import Final

from harness import servers, tables
from harness.trial import Plan, Trial, attempt, median_ratio, right
from scenarios import Bench

NAME: Final = "throughput"
_TITLE: Final = "Throughput: nginx on one core, the client on another"
_NONE, _PARQUET = "headgate, none", "headgate, parquet"
_REFERENCES: Final = ("wrk", "oha", "aiohttp", _NONE)
_TARGETS: Final = (
    (_NONE, "wrk", {64: 0.85, 1000: 0.85, 10000: 0.9}),
    (_NONE, "oha", {64: 1, 1000: 1, 10000: 1}),
    (_NONE, "aiohttp", {64: 8, 1000: 8, 10000: 8}),
    (_PARQUET, "wrk", {1000: 0.75}),
    (_PARQUET, _NONE, {1000: 0.85}),
)
_WARM_UP_SHARE: Final = 0.5
_LEAST_PER_CONNECTION: Final = 3
_LONGEST: Final = 20
"""Times what a trial should take."""


def run(bench: Bench) -> Iterator[Trial]:
    """Every client once in each round, each round begun by another.

    The rate of a client's last trial, at first of a warm-up, says how many requests make the next one last as long as
    it should: clients that go by requests then run for the time of those that go by the clock.
    """
    with servers.nginx(bench.cores.server) as nginx:
        for concurrency in bench.concurrencies:
            least = concurrency * _LEAST_PER_CONNECTION

            def plan(round_: int, per_s: float, seconds: float, c: int = concurrency, least: int = least) -> Plan:
                return Plan(
                    scenario=NAME,
                    round=round_,
                    concurrency=c,
                    requests=max(least, round(per_s * seconds)),
                    seconds=seconds,
                    longest_s=bench.seconds * _LONGEST,
                )

            per_s = {}
            for rival in bench.rivals:
                warm_up = attempt(plan(0, rival.guess_per_s, bench.seconds * _WARM_UP_SHARE), rival, nginx, bench.cores)
                per_s[rival.name] = warm_up.requests_per_s or rival.guess_per_s
            for round_ in range(1, bench.rounds + 1):
                first = round_ % len(bench.rivals)
                for rival in (*bench.rivals[first:], *bench.rivals[:first]):
                    trial = attempt(plan(round_, per_s[rival.name], bench.seconds), rival, nginx, bench.cores)
                    per_s[rival.name] = trial.requests_per_s or per_s[rival.name]
                    yield trial


def summary(trials: Sequence[Trial]) -> str:
    """A table for each concurrency."""
    concurrencies = sorted({trial.concurrency for trial in trials})
    targets = [
        tables.at_least(f"{client} / {reference}, c = {c:,}", median_ratio(_at(trials, c), client, reference), bound)
        for client, reference, bounds in _TARGETS
        for c, bound in bounds.items()
        if c in concurrencies
    ]
    parts = [f"## {_TITLE}", tables.targets_table(targets)]
    for concurrency in concurrencies:
        parts += [f"### {concurrency:,} in flight", _table(_at(trials, concurrency))]
    return "\n\n".join([*parts, tables.wrong_list(trials)]).rstrip()


def _at(trials: Sequence[Trial], concurrency: int) -> list[Trial]:
    return [trial for trial in trials if trial.concurrency == concurrency]


def _table(trials: Sequence[Trial]) -> str:
    head = ["client", "requests/s", "lowest to highest", *(f"/ {reference}" for reference in _REFERENCES)]
    head += ["CPU µs a request", "its core busy", "server's core busy", "peak MB", "trials"]
    names = sorted({trial.client for trial in trials}, key=lambda name: -(_per_s(trials, name) or 0))
    return tables.table(head, [_row(trials, name) for name in names])


def _per_s(trials: Sequence[Trial], name: str) -> float | None:
    return tables.median(trial.requests_per_s for trial in right(trials) if trial.client == name)


def _row(trials: Sequence[Trial], name: str) -> list[str]:
    own = [trial for trial in trials if trial.client == name]
    good = right(own)
    rates = [trial.requests_per_s for trial in good]
    return [
        name,
        tables.number(_per_s(trials, name), ",.0f"),
        f"{min(rates):,.0f} to {max(rates):,.0f}" if rates else tables.ABSENT,
        *(tables.number(median_ratio(trials, name, reference), ".2f") for reference in _REFERENCES),
        tables.number(tables.median(1e6 * trial.cpu_s / trial.requests for trial in good), ".1f"),
        tables.number(tables.median(trial.cpu_s / trial.wall_s for trial in good), ".0%"),
        tables.number(tables.median(trial.server_cpu_s / trial.wall_s for trial in good), ".0%"),
        tables.number(tables.median(tables.mb(trial.peak_rss_bytes) for trial in good), ".1f"),
        tables.counted(own),
    ]
