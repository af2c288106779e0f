"""Compares a list that is sorted by host with the same list shuffled, with few requests at once for each host."""

import argparse
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from considerate import fetching
from considerate.fetching import Fetched
from harness import many_hosts, servers, tables
from harness.findings import Finding

_PER_HOST: Final = 2
_DELAY_S: Final = 0.1
_IN_FLIGHT: Final = 2_000
_MOST_RATIO: Final = 1.15
_MOST_MB: Final = 150.0
_NOTE: Final = f"""\
At most {_PER_HOST} requests are in flight for each host, and {_IN_FLIGHT:,} in all. The server responds after
{_DELAY_S * 1000:.0f} ms, and nothing is kept. The shortest possible time is that of one host: its rows, {_PER_HOST} at
a time, each for the delay of the server."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures both orders, each once, because they take minutes."""
    client = fetching.client_of(arguments, "by_host")
    servers.raise_open_files(2 * _IN_FLIGHT)
    hosts, rows_each = arguments.hosts, arguments.rows // arguments.hosts
    shortest_s = rows_each / _PER_HOST * _DELAY_S
    flags = ["-c", str(_IN_FLIGHT), "--concurrency-per-host", str(_PER_HOST)]
    found: dict[str, Fetched] = {}
    everywhere = ("--host", "0.0.0.0", "--delay", str(_DELAY_S))  # noqa: S104 - a route to it is the bench's own
    with (
        tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory,
        client.server(*everywhere) as server,
    ):
        lines = [f"{url}\n" for url in many_hosts.urls(hosts, server.port) for _ in range(rows_each)]
        for order in ("shuffled", "sorted"):
            path = Path(directory, f"{order}.txt")
            path.write_text("".join(_in_order(order, lines)))
            found[order] = fetching.fetch(client, path, flags, longest_s=20 * shortest_s + 60)
    return finding(found, rows=hosts * rows_each, shortest_s=shortest_s)


def _in_order(order: str, lines: Sequence[str]) -> Sequence[str]:
    if order == "sorted":
        return lines
    shuffled = list(lines)
    random.Random(0).shuffle(shuffled)  # noqa: S311 - the same list on every machine
    return shuffled


def finding(found: dict[str, Fetched], *, rows: int, shortest_s: float) -> Finding:
    """Returns the cost of the order."""
    wrong = [
        f"{order}: {fetched.wrong or f'{fetched.succeeded:,} of {rows:,} rows succeeded'}"
        for order, fetched in found.items()
        if fetched.wrong or fetched.succeeded != rows
    ]
    ratio = None if wrong else found["sorted"].elapsed_s / found["shuffled"].elapsed_s
    targets = [
        tables.at_most("time, sorted / shuffled", ratio, _MOST_RATIO, "times", form=".2f"),
        tables.at_most("peak memory, sorted", tables.mb(found["sorted"].peak_rss_bytes), _MOST_MB, "MB"),
    ]
    head = ["order", "seconds", "/ shortest", "peak MB", "bottleneck"]
    lines = [
        [
            order,
            f"{fetched.elapsed_s:.1f}",
            f"{fetched.elapsed_s / shortest_s:.2f}",
            f"{tables.mb(fetched.peak_rss_bytes):.0f}",
            fetched.bottleneck,
        ]
        for order, fetched in found.items()
    ]
    raw: list[dict[str, Any]] = [
        {"order": order, "elapsed_s": fetched.elapsed_s, "peak_rss_bytes": fetched.peak_rss_bytes, "rows": rows}
        for order, fetched in found.items()
    ]
    text = f"{_NOTE}\n\n{tables.table(head, lines)}"
    return Finding(title=f"{rows:,} rows by host", targets=targets, text=text, raw=raw, wrong=wrong)
