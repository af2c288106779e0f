"""Runs one of the ways that `scaleout.py` compares, in a separate process: WAY ROWS URL CONCURRENCY.

It starts its data engine, does some rows, prints that it is ready, waits for a line, and prints how many responses were
right. A line for `scaleout.py` begins with `> `. Each way imports its packages itself, so that it needs no others.
"""

# ruff: noqa: PLC0415

import json
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

_WARM_ROWS: Final = 2_000
_BLOCK_ROWS: Final = 10_000
_BATCH_ROWS: Final = 1_024
_CORES: Final = 2
_THREADS: Final = 32

Way = Callable[[int, str, int], int]


def direct(rows: int, url: str, concurrency: int) -> int:
    """Runs headgate's engine alone."""
    import pyarrow as pa

    import headgate

    starts = range(0, rows, _BLOCK_ROWS)
    tables = (pa.record_batch({"id": range(start, min(start + _BLOCK_ROWS, rows))}) for start in starts)
    results = headgate.map_batches(tables, url=url + "/{id}", concurrency=concurrency, threads=1)
    return sum(right(pa.record_batch(batch)["status"]) for batch in results)


def ray(rows: int, url: str, concurrency: int) -> int:
    """Runs `headgate.ray`."""
    import headgate.ray

    results = headgate.ray.fetch(dataset(rows), url=url + "/{id}", concurrency=concurrency, batch_size=_BATCH_ROWS)
    return sum(right(batch["status"]) for batch in results.iter_batches(batch_format="pyarrow"))


class Nothing:
    """A stage that does nothing."""

    async def __call__(self, batch: Any) -> Any:  # noqa: ANN401 - any batch
        """Returns the batch."""
        return batch


def ray_nothing(rows: int, url: str, concurrency: int) -> int:
    """Runs a stage that makes no requests, with the same settings as headgate."""
    from ray.data import ActorPoolStrategy

    del url, concurrency
    results = dataset(rows).map_batches(
        Nothing,
        batch_format="pyarrow",
        batch_size=_BATCH_ROWS,
        num_cpus=0.25,
        compute=ActorPoolStrategy(size=1, max_concurrent_calls_per_actor=4),
    )
    return sum(batch.num_rows for batch in results.iter_batches(batch_format="pyarrow"))


def ray_download(rows: int, url: str, concurrency: int) -> int:
    """Runs Ray's `download`."""
    from ray.data.expressions import download

    del concurrency
    results = dataset(rows).map_batches(partial(with_urls, url)).with_column("bytes", download("url"))
    return sum(len(batch) - batch["bytes"].null_count for batch in results.iter_batches(batch_format="pyarrow"))


def ray_processor(rows: int, url: str, concurrency: int) -> int:
    """Runs Ray's processor for HTTP interfaces of models: one actor, with its default of concurrent batches."""
    from ray.data.llm import HttpRequestProcessorConfig, build_processor

    del concurrency
    processor = build_processor(
        HttpRequestProcessorConfig(url=url + "/echo", concurrency=1),
        preprocess=lambda row: {"payload": {"id": row["id"]}},
        postprocess=lambda row: {"succeeded": row["http_response"] is not None},
    )
    results = processor(dataset(rows))
    return sum(int(batch["succeeded"].sum()) for batch in results.iter_batches())


def spark(rows: int, url: str, concurrency: int) -> int:
    """Runs `headgate.spark`, with half of the concurrency in each of the two processes."""
    import headgate.spark

    frame = numbers(rows)
    fetch = headgate.spark.fetch(url=url + "/{number}", concurrency=concurrency // _CORES)
    return succeeded_rows(frame.mapInArrow(fetch, fetch.schema(frame)))


def spark_nothing(rows: int, url: str, concurrency: int) -> int:
    """Runs a stage that makes no requests, with the same settings as headgate."""
    del url, concurrency
    frame = numbers(rows)
    return int(frame.mapInArrow(lambda batches: batches, frame.schema).selectExpr("count(number)").first()[0])


def spark_requests(rows: int, url: str, concurrency: int) -> int:
    """Runs requests, with a session and a pool of threads for each partition, which is a common solution."""
    del concurrency

    def fetch(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        import requests
        from requests.adapters import HTTPAdapter

        with requests.Session() as session, ThreadPoolExecutor(_THREADS) as threads:
            session.mount("http://", HTTPAdapter(pool_maxsize=_THREADS))
            for batch in batches:
                ids = batch["number"].to_pylist()
                responses = list(threads.map(lambda number: session.get(f"{url}/{number}", timeout=30), ids))
                statuses = pa.array([response.status_code for response in responses], pa.int16())
                bodies = pa.array([response.content for response in responses], pa.binary())
                yield pa.record_batch({"number": batch["number"], "status": statuses, "body": bodies})

    return succeeded_rows(numbers(rows).mapInArrow(fetch, "number long, status short, body binary"))


def daft(rows: int, url: str, concurrency: int) -> int:
    """Runs Daft's `download`."""
    import daft
    from daft.functions import download

    del concurrency
    frame = daft.from_pydict({"url": [f"{url}/{number}" for number in range(rows)]})
    frame = frame.with_column("bytes", download(frame["url"], max_connections=_THREADS, on_error="null"))
    return int(frame.where(frame["bytes"].not_null()).count_rows())


def dataset(rows: int) -> Any:  # noqa: ANN401 - Ray has no types
    """Returns a dataset of numbers in Ray."""
    from ray.data import range as ray_range

    return ray_range(rows, override_num_blocks=max(1, rows // _BLOCK_ROWS))


def numbers(rows: int) -> Any:  # noqa: ANN401 - Spark has no types
    """Returns a DataFrame of numbers in Spark."""
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate().range(0, rows, 1, _CORES).withColumnRenamed("id", "number")


def with_urls(url: str, batch: Any) -> Any:  # noqa: ANN401 - any batch
    """Returns the batch with a URL for each row."""
    return {"url": [f"{url}/{number}" for number in batch["id"]]}


def succeeded_rows(frame: Any) -> int:  # noqa: ANN401 - Spark has no types
    """Returns the number of rows with the right status."""
    return int(frame.selectExpr("count_if(status = 200)").first()[0])


def right(statuses: Any) -> int:  # noqa: ANN401 - any array
    """Returns how many statuses are 200."""
    import pyarrow.compute as pc

    return int(pc.sum(pc.equal(statuses, 200)).as_py() or 0)


def start_ray(stack: ExitStack) -> None:
    """Starts a cluster of one node."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    import ray

    ray.init(num_cpus=_CORES, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    ray.data.DataContext.get_current().enable_progress_bars = False
    stack.callback(ray.shutdown)


def start_spark(stack: ExitStack) -> None:
    """Starts a session on all available cores."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    from pyspark.sql import SparkSession

    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.log.level": "ERROR"}
    builder = SparkSession.builder.master(f"local[{_CORES}]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    stack.callback(builder.getOrCreate().stop)


WAYS: Final[dict[str, Way]] = {
    "direct": direct,
    "ray": ray,
    "ray-nothing": ray_nothing,
    "ray-download": ray_download,
    "ray-processor": ray_processor,
    "spark": spark,
    "spark-nothing": spark_nothing,
    "spark-requests": spark_requests,
    "daft": daft,
}


def main() -> None:
    """Runs the way twice: for warm-up, and for the measurement."""
    name, rows, url, concurrency = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    with ExitStack() as stack:
        if name.startswith("ray"):
            start_ray(stack)
        if name.startswith("spark"):
            start_spark(stack)
        WAYS[name](_WARM_ROWS, url, concurrency)
        print("> ready", flush=True)
        sys.stdin.readline()
        began = time.perf_counter()
        found = WAYS[name](rows, url, concurrency)
        print("> " + json.dumps({"right": found, "wall_s": time.perf_counter() - began}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
