"""Measures a typical paid API, with limits of requests a second, requests at once and tokens a minute, and failures."""

import argparse
import json
import random
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from considerate import fetching, server_log
from considerate.fetching import Fetched
from harness import tables
from harness.findings import Finding

ROWS: Final = 20_000
PER_S: Final = 500
AT_ONCE: Final = 20
TOKENS_PER_MIN: Final = 1_000_000
BURST_S: Final = 0.05
DELAY_S: Final = 0.03
_TOKENS: Final = (10, 50)
"""The least and most tokens of a row, so that requests and tokens are exhausted at nearly the same time."""
_SERVER: Final = (
    *("--delay", str(DELAY_S)),
    *("--api-rate", f"{PER_S}/s", "--api-concurrency", str(AT_ONCE), "--api-tokens", f"{TOKENS_PER_MIN}/m"),
    *("--api-burst", str(round(BURST_S * PER_S)), "--api-fail-first", "5%"),
)
_CLIENT: Final = (
    *("--rate", f"{PER_S}/s", "--concurrency-per-host", str(AT_ONCE)),
    *("--cost-rate", f"{TOKENS_PER_MIN}/m", "--cost-column", "tokens"),
    *("--idempotency-key", "-H", "Content-Type: application/json"),
)
_MOST_RATIO: Final = 1.1
_MOST_REFUSED: Final = 0.02
_LONGEST_S: Final = 300.0
_NOTE: Final = f"""\
`headgate serve {" ".join(_SERVER)}`, and `headgate fetch` of {ROWS:,} POST rows with `{" ".join(_CLIENT)}`. Of each
request the server says whether it let it through; the shortest time is what the requests and tokens that it had to let
through need by its limits."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures all rows in one run."""
    client = fetching.client_of(arguments, "sold")
    tokens = _tokens()
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
        log, rows = Path(directory, "log"), Path(directory, "rows.ndjson")
        with client.server(*_SERVER, "--log", str(log)) as server:
            rows.write_text("".join(_line(server.url, row, cost) for row, cost in enumerate(tokens)))
            fetched = fetching.fetch(client, rows, _CLIENT, longest_s=_LONGEST_S, fails=True)
            limits = server.stats()["limits"]
        failed = [int(entry.target.rpartition("/")[2]) for entry in server_log.read(log) if entry.status == "500"]
    return finding(fetched, limits, shortest_s(tokens, failed))


def _tokens() -> list[int]:
    draws = random.Random(0)  # noqa: S311 - the same rows on every machine
    return [draws.randint(*_TOKENS) for _ in range(ROWS)]


def _line(url: str, row: int, tokens: int) -> str:
    body = json.dumps({"prompt": f"row {row}", "tokens": tokens})
    line = {"url": f"{url}/row/{row}", "method": "POST", "body": body, "tokens": tokens}
    return f"{json.dumps(line)}\n"


def shortest_s(tokens: Sequence[int], failed: Sequence[int]) -> float:
    """Returns the time that the limits need for every row once, and for each failed one once more."""
    requests = len(tokens) + len(failed)
    cost = sum(tokens) + sum(tokens[row] for row in failed)
    cost_per_s = TOKENS_PER_MIN / 60
    return max(requests / PER_S - BURST_S, cost / cost_per_s - BURST_S, requests * DELAY_S / AT_ONCE)


def finding(fetched: Fetched, limits: Mapping[str, int], shortest: float) -> Finding:
    """Returns the time, the refusals, and whether each row succeeded."""
    refused = sum(limits.get(f"api_{cause}", 0) for cause in ("rate", "concurrency", "tokens"))
    requests = ROWS + limits.get("api_failed_first", 0) + limits.get("api_retried_after_response", 0) + refused
    wrong = [fetched.wrong] if fetched.wrong else []
    if fetched.succeeded != ROWS:
        wrong.append(f"{fetched.succeeded:,} of {ROWS:,} rows succeeded: {fetched.errors}")
    targets = [
        tables.at_most("time / shortest", fetched.elapsed_s / shortest, _MOST_RATIO, "times", form=".3f"),
        tables.at_most("requests refused", refused / requests, _MOST_REFUSED, "of all", form=".4f"),
    ]
    raw: list[dict[str, Any]] = [{"elapsed_s": fetched.elapsed_s, "shortest_s": shortest, "limits": dict(limits)}]
    lines = [["seconds", f"{fetched.elapsed_s:.2f}"], ["shortest", f"{shortest:.2f}"]]
    lines += [[name, f"{count:,}"] for name, count in limits.items()]
    text = f"{_NOTE}\n\n{tables.table(['', ''], lines)}\n\n{fetched.bottleneck}"
    return Finding(title="An API that is sold", targets=targets, text=text, raw=raw, wrong=wrong)
