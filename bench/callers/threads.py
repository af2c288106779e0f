"""Measures few and many threads that each make one request after another."""

import argparse

from callers import measuring, runs
from callers.clients import FROM_THREADS, SOCKET
from harness.findings import Finding


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of all clients, for each number of threads."""
    chosen = [client for client in FROM_THREADS if client.name in arguments.chosen]
    made = measuring.over_http(chosen, arguments.threads, arguments)
    parts = []
    for threads in arguments.threads:
        title = f"### {threads} thread{'s' if threads > 1 else ''}"
        parts += [title, measuring.section(made, chosen, SOCKET, threads)]
    return Finding(
        title="Threads, each one request after another",
        targets=[],
        text="\n\n".join(parts),
        raw=runs.raw(made),
        wrong=runs.wrong_list(made),
    )
