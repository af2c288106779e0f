"""Measures by the log of the server whether a rate is kept exactly, and used."""

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from considerate import fetching, server_log
from harness import tables
from harness.findings import Finding

_RATES: Final = (1, 100, 10_000, 50_000)
_LEAST_ROWS: Final = 11
_BURST_S: Final = 0.01
_LEAST_SHARE: Final = 0.98
_LATE_S: Final = 0.02
"""How late the log may be, because the server reads requests together that were sent one after another."""
_NOTE: Final = f"""\
One host, `--rate` as named, 256 in flight, a server that responds at once. The share is of what the rate allows from
the first request to the last. The burst is the most that any window had beyond `rate x length`, when the server had
read them: the burst asked for, and what comes together because the server was not running for some milliseconds; of
these {_LATE_S * 1000:.0f} ms are allowed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Kept:
    """The figures of one rate."""

    rate: int
    sent: int
    share: float
    beyond: float
    allowed: float


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures each rate in turn."""
    client = fetching.client_of(arguments, "rates")
    kept: list[Kept] = []
    wrong: list[str] = []
    seconds = arguments.seconds
    for rate in _RATES:
        rows = max(_LEAST_ROWS, round(rate * seconds))
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
            log = Path(directory, "log")
            with client.server("--log", str(log)) as server:
                fetched = fetching.fetch(
                    client,
                    f"{server.url}/[1-{rows}]",
                    ["--rate", f"{rate}/s"],
                    longest_s=3 * rows / rate + 30,
                )
            times_s = [entry.time_s for entry in server_log.read(log)]
        if fetched.wrong or len(times_s) != rows:
            wrong.append(f"{rate}/s: {fetched.wrong or f'{len(times_s):,} requests for {rows:,} rows'}")
            continue
        kept.append(of_times(rate, times_s))
    return finding(kept, wrong)


def of_times(rate: int, times_s: list[float]) -> Kept:
    """Returns the figures of a rate for requests at these times."""
    burst = max(1.0, rate * _BURST_S)
    allowed = burst + rate * (times_s[-1] - times_s[0])
    return Kept(
        rate=rate,
        sent=len(times_s),
        share=len(times_s) / allowed,
        beyond=server_log.most_beyond(times_s, rate),
        allowed=burst + rate * _LATE_S,
    )


def finding(kept: list[Kept], wrong: list[str]) -> Finding:
    """Returns two targets and a row for each rate."""
    targets = []
    for each in kept:
        targets += [
            tables.at_least(f"{each.rate:,}/s: share of what is allowed", each.share, _LEAST_SHARE),
            tables.at_most(f"{each.rate:,}/s: burst", each.beyond, each.allowed, "requests"),
        ]
    rows = [[f"{each.rate:,}/s", f"{each.sent:,}", f"{each.share:.3f}", f"{each.beyond:.1f}"] for each in kept]
    raw: list[dict[str, Any]] = [
        {"rate": each.rate, "sent": each.sent, "share": each.share, "burst": each.beyond} for each in kept
    ]
    text = f"{_NOTE}\n\n{tables.table(['rate', 'requests', 'share', 'burst'], rows)}"
    return Finding(title="Rates", targets=targets, text=text, raw=raw, wrong=wrong)
