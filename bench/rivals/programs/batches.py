"""Runs `headgate.Client` with many requests, from a generator of URLs, and gets the responses as columns."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import headgate
from rivals.programs import Counted


def run(_client: str, url: str, requests: int, concurrency: int) -> Counted:
    """Counts statuses and lengths in each batch; the only client here."""
    urls, counted = (f"{url}/{number}" for number in range(1, requests + 1)), Counted()
    with headgate.Client(concurrency=concurrency) as client:
        many: Any = client.fetch_many(urls)
        for batch in many.to_arrow_batches():
            columns = pa.record_batch(batch)
            lengths = pc.binary_length(columns["body"])
            for status in pc.value_counts(columns["status"]):
                mine = pc.equal(columns["status"], status["values"])
                counted.add(status["values"].as_py(), pc.sum(lengths.filter(mine)).as_py(), status["counts"].as_py())
    return counted
