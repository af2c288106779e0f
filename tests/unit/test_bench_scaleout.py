"""The arithmetic of bench/scaleout.py. The data engines it compares need not be there."""

import os
import subprocess
import sys

import pytest

from harness import trees
from scaleout import WAYS, Found, shown, targets


def found(cpu_us: float, in_flight: int = 256, rows: int = 1000) -> Found:
    return Found(
        rows=rows,
        wrong=0,
        wall_s=2.0,
        cpu_us=cpu_us,
        in_flight=in_flight,
        requests=2 * rows,
        connections=257,
        peak_bytes=5_000_000,
    )


def test_what_a_stage_costs_is_above_nothing_and_above_the_engine_alone() -> None:
    met = list(targets({"direct": found(9), "ray-nothing": found(3), "ray": found(22), "spark": found(10)}))
    by_promise = {target.promise: target for target in met}
    ray = by_promise["ray: above nothing and direct: at most 10 µs CPU a row"]
    assert (10.0, True) == (ray.measured, ray.met)
    spark = by_promise["spark: above nothing and direct: at most 10 µs CPU a row"]
    assert (None, False) == (spark.measured, spark.met)


def test_more_in_flight_than_the_concurrency_is_a_missed_target() -> None:
    met = {target.promise: target.met for target in targets({"direct": found(9, 257), "ray": found(9, 256)})}
    assert not met["direct: in flight: at most 256 requests"]
    assert met["ray: in flight: at most 256 requests"]


def test_the_table_has_what_was_measured_in_the_order_of_the_candidates() -> None:
    rows = shown({"spark-requests": found(700), "direct": found(9.25)}).splitlines()
    assert 4 == len(rows)
    assert "| `headgate.map_batches`, no data engine | 1,000 | 9.2 | 500 | 256 | 2.00 | 257 | 5 MB |" == rows[2]
    assert rows[3].startswith("| Spark `local[2]`, requests with 32 threads |")


def test_each_candidate_can_be_run() -> None:
    import scaleout_worker  # noqa: PLC0415 - a program, which imports nothing at first

    assert sorted(scaleout_worker.WAYS) == sorted(way.name for way in WAYS)


def test_child_processes_are_counted_with_their_parent() -> None:
    program = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(1, flush=True); input()'], check=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "1\n"
        below = trees.tree(process.pid)
        assert process.pid == below[0]
        assert len(below) == 2
        assert set(below) <= set(trees.tree(os.getpid()))
        assert trees.memory_bytes(process.pid) > trees.memory_bytes(below[1]) > 0
        assert trees.cpu_s(process.pid) >= trees.cpu_s(below[1])
        process.communicate("\n")
    assert [] == trees.tree(process.pid)
    assert trees.cpu_s(process.pid) == pytest.approx(0)
