"""Measures the cost of each kind of requests, compared with an older version and with other clients.

Each cell is measured in separate rounds: this version and the older one, with and without results, and
the peers that can do the same.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from harness import columns, findings, in_turn, many_hosts, tables
from harness.findings import Finding
from harness.in_turn import Series
from harness.nginx import Nginx, nginx
from harness.tables import Target
from harness.trial import Trial, cpu_s_per_request, median_ratio, right
from rivals import Rival
from rivals.headgate import Format, Headgate
from scenarios import Bench
from scenarios.cells import CELLS, Cell, chosen
from scenarios.throughput import LEAST_PER_CONNECTION

NAME: Final = "requests"
NOW, BEFORE = "now", "before"
_TITLE: Final = "Requests of each kind beside the version before"
PEERS: Final = ("wrk", "floor")
_TARGETS: Final = {
    ("plain-64", "none"): 1.0,
    ("plain-1000", "none"): 1.0,
    ("plain-10000", "none"): 1.0,
    ("plain-1000", "parquet"): 0.95,
    ("tls-64", "none"): 1.0,
}
"""The least ratios to wrk's requests a second."""
_NOTE: Final = """\
Ratios are medians of rounds: of requests a second more is better, of CPU less. wrk and the floor keep nothing and make
one request; they stand where they can do the same. The server waits a millisecond between the pieces of a response, so
there only the CPU is a figure of the client."""


def run(bench: Bench) -> Iterator[Trial]:
    """Measures cell after cell."""
    cells = [cell for cell in chosen(bench.cells) if cell.concurrency in bench.concurrencies]
    many = any(cell.kind.hosts for cell in cells)
    with nginx(
        bench.cores.server,
        addresses=many_hosts.addresses() if many else (),
        tls=any(cell.kind.tls for cell in cells),
    ) as server:
        for cell in cells:
            series = Series(
                scenario=NAME,
                concurrency=cell.concurrency,
                rounds=bench.rounds,
                seconds=bench.seconds,
                least=cell.concurrency * LEAST_PER_CONNECTION,
                cell=cell.name,
                url=_url(cell, server),
                body_bytes=cell.kind.body_bytes,
            )
            yield from in_turn.trials(series, list(entrants(bench, cell)), server, bench.cores)


def _url(cell: Cell, server: Nginx) -> str:
    return f"{server.tls_url if cell.kind.tls else server.url}{cell.kind.path}"


def entrants(bench: Bench, cell: Cell) -> Iterator[Rival]:
    """Yields the clients that are measured in a cell."""
    for format_ in cell.kind.formats:
        for label, program in ((NOW, bench.headgate), (BEFORE, bench.before)):
            if program is not None:
                yield Headgate(program, format_, label=label, hosts=cell.kind.hosts, flags=cell.kind.flags)
    yield from (rival for rival in bench.rivals if rival.name in cell.kind.peers)


def finding(trials: Sequence[Trial]) -> Finding:
    """Returns a row for each cell and format."""
    at = {name: [trial for trial in trials if trial.cell == name] for name in dict.fromkeys(t.cell for t in trials)}
    targets: list[Target] = []
    rows: list[list[str]] = []
    for name, own in at.items():
        for format_ in CELLS[name].kind.formats:
            targets += _targets(CELLS[name], format_, own)
            rows.append(_row(CELLS[name], format_, own))
    references = (BEFORE, *PEERS)
    head = ["", "in flight", "kept", columns.REQUESTS_PER_S, *(f"/ {name}" for name in references)]
    head += [columns.CPU_US, *(f"/ {name}" for name in references)]
    head += [columns.USER_US, columns.CLIENT_BUSY, columns.SERVER_BUSY, "most MB", BEFORE, columns.TRIALS]
    return findings.of_trials(_TITLE, targets, f"{_NOTE}\n\n{tables.table(head, rows)}", trials)


def _targets(cell: Cell, format_: Format, trials: Sequence[Trial]) -> Iterator[Target]:
    now, before = f"{NOW}, {format_}", f"{BEFORE}, {format_}"
    bound = cell.kind.bound
    yield tables.at_least(f"{cell.name}, {format_}: requests/s, / before", median_ratio(trials, now, before), bound)
    cpu = median_ratio(trials, now, before, cpu_s_per_request)
    yield tables.at_most(
        f"{cell.name}, {format_}: CPU a request, / before", cpu, round(1 / bound, 2), "times", form=".2f"
    )
    if (cell.name, format_) in _TARGETS:
        promise = f"{cell.name}, {format_}: requests/s, / wrk"
        yield tables.at_least(promise, median_ratio(trials, now, "wrk"), _TARGETS[cell.name, format_])


def _row(cell: Cell, format_: Format, trials: Sequence[Trial]) -> list[str]:
    now, before = f"{NOW}, {format_}", f"{BEFORE}, {format_}"
    own = [trial for trial in trials if trial.client == now]
    references = (before, *PEERS)
    return [
        cell.kind.words,
        f"{cell.concurrency:,}",
        format_,
        *columns.figures(own, columns.REQUESTS_PER_S),
        *(tables.number(median_ratio(trials, now, name), ".2f") for name in references),
        *columns.figures(own, columns.CPU_US),
        *(tables.number(median_ratio(trials, now, name, cpu_s_per_request), ".2f") for name in references),
        *columns.figures(own, columns.USER_US, columns.CLIENT_BUSY, columns.SERVER_BUSY),
        *(_most_mb(trials, name) for name in (now, before)),
        *columns.figures(own, columns.TRIALS),
    ]


def _most_mb(trials: Sequence[Trial], client: str) -> str:
    peaks = [trial.peak_rss_bytes for trial in right(trials) if trial.client == client]
    return tables.number(tables.mb(max(peaks)) if peaks else None, ".1f")
