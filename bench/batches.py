"""Measures tables in memory: `map_batches` and `fetch_many(...).to_arrow_batches()`, compared with `headgate fetch`.

Prints rows a second of each, and their ratio to a fetch that keeps nothing, which is the engine's own rate. headgate
has one core, and the server another. Exit code 1: a response was wrong.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pyarrow as pa

import headgate
from harness.command import HEADGATE, TRUST_RATIOS, two_cores
from harness.servers import local_server
from headgate._headgate import DEBUG_BUILD

BATCH_ROWS: Final = 10_000


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=300_000, help="of each trial (default: 300,000)")
    parser.add_argument("--rounds", type=int, default=3, help="of each (default: 3)")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 1_000], help="(default: 64 1000)")
    arguments = parser.parse_args()
    if DEBUG_BUILD:
        parser.error("this headgate is a debug build: build it with `make build`")
    print(TRUST_RATIOS)
    cores = two_cores("this")
    with local_server(HEADGATE, cores.server) as server, tempfile.TemporaryDirectory() as place:
        os.sched_setaffinity(0, {cores.client})
        for concurrency in arguments.concurrency:
            _compare(server.url, Path(place), arguments.rows, concurrency, arguments.rounds)
    return 0


def _compare(server: str, place: Path, rows: int, concurrency: int, rounds: int) -> None:
    def nothing_kept() -> None:
        headgate.fetch(f"{server}/[1-{rows}]", format="none", concurrency=concurrency, threads=1, progress=False)

    def into_parquet() -> None:
        out = place / "out"
        headgate.fetch(
            f"{server}/[1-{rows}]", out, if_exists="overwrite", concurrency=concurrency, threads=1, progress=False
        )

    def from_memory() -> None:
        found = 0
        for batch in headgate.map_batches(_batches(rows), url=server + "/{id}", concurrency=concurrency, threads=1):
            statuses = pa.record_batch(batch)["status"]
            found += statuses.to_numpy(zero_copy_only=False).sum()
        if found != 200 * rows:
            sys.exit("a response was wrong")

    def from_a_generator() -> None:
        urls = (f"{server}/{number}" for number in range(rows))
        with headgate.Client(concurrency=concurrency, threads=1) as client:
            if sum(batch.num_rows for batch in client.fetch_many(urls).to_arrow_batches()) != rows:
                sys.exit("a result is missing")

    ways: dict[str, Callable[[], None]] = {
        "fetch, nothing kept": nothing_kept,
        "fetch, into Parquet": into_parquet,
        "map_batches": from_memory,
        "batches()": from_a_generator,
    }
    _measure(ways, rows, rounds, f"{concurrency:5} in flight")


def _measure(ways: dict[str, Callable[[], None]], rows: int, rounds: int, where: str) -> None:
    rates: dict[str, list[float]] = {name: [] for name in ways}
    cpu: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            began, used = time.perf_counter(), sum(os.times()[:2])
            way()
            rates[name].append(rows / (time.perf_counter() - began))
            cpu[name].append((sum(os.times()[:2]) - used) / rows * 1e6)
    engine = statistics.median(rates["fetch, nothing kept"])
    for name in ways:
        rate = statistics.median(rates[name])
        micros = statistics.median(cpu[name])
        figures = f"{rate:9,.0f} rows/s  {rate / engine:.2f}  {micros:5.1f} µs CPU a row"
        print(f"{where}  {name:20}  {figures}", flush=True)


def _batches(rows: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, rows, BATCH_ROWS):
        yield pa.record_batch({"id": range(start, min(start + BATCH_ROWS, rows))})


if __name__ == "__main__":
    sys.exit(main())
