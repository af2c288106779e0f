"""Measures requests in flight in an event loop: workers that each await one after another."""

import argparse
from collections.abc import Sequence
from typing import Final

from callers import measuring, runs
from callers.clients import AIOHTTP, IN_LOOPS, OURS_ASYNC, PYREQWEST
from callers.runs import Run
from harness import tables
from harness.findings import Finding
from harness.tables import Target

_FASTER_AT: Final = (1, 1_000)
_CHEAP_AT: Final = 64
_MOST_CPU_US: Final = 20.0


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures rounds of all clients, for each number in flight."""
    chosen = [client for client in IN_LOOPS if client.name in arguments.chosen]
    made = measuring.over_http(chosen, arguments.in_flight, arguments)
    parts = []
    for in_flight in arguments.in_flight:
        parts += [f"### {in_flight:,} in flight", measuring.section(made, chosen, AIOHTTP[0], in_flight)]
    return Finding(
        title="In flight in a loop",
        targets=targets(made),
        text="\n\n".join(parts),
        raw=runs.raw(made),
        wrong=runs.wrong_list(made),
    )


def targets(made: Sequence[Run]) -> list[Target]:
    """Returns the targets of `headgate.AsyncClient`: faster than other clients on the same loop, and cheap."""
    faster = [
        tables.at_least(
            f"requests/s, {ours.name} / {other.name}, {in_flight:,} in flight",
            runs.ratio(made, (ours, other), in_flight, measuring.per_s),
            1.0,
        )
        for ours, *others in zip(OURS_ASYNC, AIOHTTP, PYREQWEST, strict=True)
        for other in others
        for in_flight in _FASTER_AT
    ]
    cheap = [
        tables.at_most(
            f"CPU of a request, {ours.name}, {_CHEAP_AT} in flight",
            runs.median(runs.of(made, ours, _CHEAP_AT), measuring.cpu_us),
            _MOST_CPU_US,
            "µs",
        )
        for ours in OURS_ASYNC
    ]
    return faster + cheap
