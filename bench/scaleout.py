"""Measures HTTP requests as a stage of data engines: headgate in Ray Data and Spark, and common alternatives.

Each way is a process with all that it starts, which is measured once the engine runs and has done some rows. The
server sends 13 bytes after some milliseconds, so that requests are in flight together. Exit code 1: a response was
wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import environment, tables
from harness.command import HEADGATE, TRUST_RATIOS
from harness.processes import pinned
from harness.servers import LocalServer, local_server
from harness.trees import cpu_s, memory_bytes

WORKER: Final = Path(__file__).with_name("scaleout_worker.py")
MOST_ABOVE_US: Final = 10.0
_SAMPLE_S: Final = 0.5
_DELAY_S: Final = 0.005
_CONCURRENCY: Final = 256


@dataclass(frozen=True, slots=True)
class Way:
    """A way. A slow one has fewer rows; `target` is the bound of requests in flight."""

    name: str
    shown: str
    is_slow: bool = False
    target: int | None = None


WAYS: Final = (
    Way("direct", "`headgate.map_batches`, no data engine", target=_CONCURRENCY),
    Way("ray-nothing", "Ray Data, a stage that does nothing"),
    Way("ray", "Ray Data, `headgate.ray.fetch`", target=_CONCURRENCY),
    Way("ray-download", "Ray Data, `download()`", is_slow=True),
    Way("ray-processor", "Ray Data, `HttpRequestProcessor`", is_slow=True),
    Way("spark-nothing", "Spark `local[2]`, a stage that does nothing"),
    Way("spark", "Spark `local[2]`, `headgate.spark.fetch`", target=_CONCURRENCY),
    Way("spark-requests", "Spark `local[2]`, requests with 32 threads", is_slow=True),
    Way("daft", "Daft, `download(max_connections=32)`", is_slow=True),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    """The figures of a way."""

    rows: int
    wrong: int
    wall_s: float
    cpu_us: float
    in_flight: int
    requests: int
    connections: int
    peak_bytes: int


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of headgate and of what does nothing")
    parser.add_argument("--slow-rows", type=int, default=20_000, help="of others (default: 20,000)")
    parser.add_argument("--only", nargs="+", choices=[way.name for way in WAYS], default=[way.name for way in WAYS])
    parser.add_argument("--daft", type=Path, metavar="PYTHON", help="of an environment that has Daft")
    arguments = parser.parse_args()
    print(TRUST_RATIOS)
    print(f"- {environment.machine()['cpu']}; the CPU is that of all processes of a way, without starting the engine.")
    print("- Memory is shared out among the processes that share it (PSS); what the server uses is in no figure.")
    found: dict[str, Found] = {}
    for way in WAYS:
        python = arguments.daft if way.name == "daft" else Path(sys.executable)
        if way.name not in arguments.only:
            continue
        if python is None:
            print(f"left out: {way.shown}: give --daft", file=sys.stderr)
            continue
        rows = arguments.slow_rows if way.is_slow else arguments.rows
        try:
            found[way.name] = measured(way, python, rows)
        except subprocess.CalledProcessError as error:
            print(f"left out: {way.shown}: {error}", file=sys.stderr)
            continue
        print(f"{way.name}: {found[way.name]}", file=sys.stderr)
    print()
    print(shown(found))
    print()
    print(tables.targets_table(targets(found)))
    return 1 if any(each.wrong for each in found.values()) else 0


def measured(way: Way, python: Path, rows: int) -> Found:
    """Runs a way to its end."""
    with local_server(HEADGATE, min(os.sched_getaffinity(0)), "--delay", str(_DELAY_S)) as server, pinned(None):
        command = [python, WORKER, way.name, str(rows), server.url, str(_CONCURRENCY)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen([*map(str, command)], text=True, **pipes) as process:  # type: ignore[call-overload]
            _line(process)
            before, used = server.stats(), cpu_s(process.pid)
            with peak_of(process.pid) as peak:
                process.stdin.write("go\n")
                process.stdin.flush()
                figures = json.loads(_line(process))
                used = cpu_s(process.pid) - used
            after = server.stats()
            process.stdin.close()
            if process.wait() != 0:
                raise subprocess.CalledProcessError(process.returncode, way.name)
        return Found(
            rows=rows,
            wrong=rows - figures["right"],
            wall_s=figures["wall_s"],
            cpu_us=used / rows * 1e6,
            in_flight=in_flight(server),
            requests=after["requests"] - before["requests"],
            connections=after["connections_accepted"] - before["connections_accepted"],
            peak_bytes=max(peak),
        )


def in_flight(server: LocalServer) -> int:
    """Returns the largest number of requests that were ever in progress."""
    return server.most_in_progress()


def _line(process: subprocess.Popen[str]) -> str:
    """Returns the next line of the worker, and skips output of the data engine."""
    assert process.stdout is not None  # noqa: S101 - for the types
    for line in process.stdout:
        if line.startswith("> "):
            return line.removeprefix("> ")
    raise subprocess.CalledProcessError(process.wait(), str(process.args))


@contextmanager
def peak_of(pid: int) -> Iterator[list[int]]:
    """Samples the memory of a process and its descendants; the yielded list has the peak."""
    seen, ended = [memory_bytes(pid)], threading.Event()

    def look() -> None:
        while not ended.wait(_SAMPLE_S):
            seen[:] = [max(*seen, memory_bytes(pid))]

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()


def shown(found: dict[str, Found]) -> str:
    """Returns the table."""
    head = ["way", "rows", "CPU µs a row", "rows/s", "in flight", "requests a row", "connections", "peak memory"]
    rows = [
        [
            way.shown,
            f"{each.rows:,}",
            f"{each.cpu_us:,.1f}",
            f"{each.rows / each.wall_s:,.0f}",
            tables.ABSENT if way.name.endswith("nothing") else str(each.in_flight),
            f"{each.requests / each.rows:.2f}",
            f"{each.connections:,}",
            f"{each.peak_bytes / 1e6:,.0f} MB",
        ]
        for way in WAYS
        if (each := found.get(way.name)) is not None
    ]
    return tables.table(head, rows)


def targets(found: dict[str, Found]) -> Iterator[tables.Target]:
    """Yields the targets."""
    direct = found.get("direct")
    for name in ("ray", "spark"):
        ours, nothing = found.get(name), found.get(f"{name}-nothing")
        above = ours.cpu_us - nothing.cpu_us - direct.cpu_us if ours and nothing and direct else None
        yield tables.at_most(f"{name}: above nothing and direct", above, MOST_ABOVE_US, "µs CPU a row")
    for way in WAYS:
        each = found.get(way.name)
        if way.target is not None:
            yield tables.at_most(
                f"{way.name}: in flight", each.in_flight if each else None, way.target, "requests", ".0f"
            )


if __name__ == "__main__":
    sys.exit(main())
