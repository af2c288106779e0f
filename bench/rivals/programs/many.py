"""Runs `headgate.Client` with many requests, from a generator of URLs."""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import headgate
from rivals.programs import Counted


def run(client: str, url: str, requests: int, concurrency: int) -> Counted:
    """Runs the client "outcomes", one after another, or "batches", as columns."""
    urls, counted = (f"{url}/{number}" for number in range(1, requests + 1)), Counted()
    with headgate.Client(concurrency=concurrency) as opened:
        {"outcomes": _outcomes, "batches": _batches}[client](opened, urls, counted)
    return counted


def _outcomes(client: headgate.Client, urls: Iterator[str], counted: Counted) -> None:
    for outcome in client.fetch_many(urls):
        response = outcome.unwrap()
        counted.add(response.status_code, len(response.content))


def _batches(client: headgate.Client, urls: Iterator[str], counted: Counted) -> None:
    # Only batches need these packages.
    pa, pc = import_module("pyarrow"), import_module("pyarrow.compute")
    many: Any = client.fetch_many(urls)
    for batch in many.to_arrow_batches():
        columns = pa.record_batch(batch)
        lengths = pc.binary_length(columns["body"])
        for status in pc.value_counts(columns["status"]):
            mine = pc.equal(columns["status"], status["values"])
            counted.add(status["values"].as_py(), pc.sum(lengths.filter(mine)).as_py(), status["counts"].as_py())
