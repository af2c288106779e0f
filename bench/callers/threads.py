"""Measures few and many threads that each make one request after another."""

import argparse

from callers import measuring, runs
from callers.clients import FROM_THREADS, SOCKET
from harness import tables
from harness.findings import Finding


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of all clients, for each number of threads."""
    chosen = [client for client in FROM_THREADS if client.name in arguments.chosen]
    made = measuring.over_http(chosen, arguments.threads, arguments)
    head = ["", "requests/s", f"/ {SOCKET.name}", "CPU µs a request", "median µs", "99 % µs", "runs"]
    parts = []
    for threads in arguments.threads:
        rows = []
        for client in chosen:
            figures = [(measuring.per_s, ",.0f"), (measuring.cpu_us, ".1f")]
            latency = [(measuring.median_us, ",.0f"), (measuring.p99_us, ",.0f")]
            per_s, *others = runs.row(runs.of(made, client, threads), [*figures, *latency])
            beside = runs.ratio(made, (client, SOCKET), threads, measuring.per_s)
            rows.append([client.name, per_s, tables.number(beside, ".2f"), *others])
        parts += [f"### {threads} thread{'s' if threads > 1 else ''}", tables.table(head, rows)]
    return Finding(
        title="Threads, each one request after another",
        targets=[],
        text="\n\n".join(parts),
        raw=runs.raw(made),
        wrong=runs.wrong_list(made),
    )
