"""Runs one way in a fresh interpreter. `tasks.py` starts it and reads its line of JSON."""

import asyncio
import dataclasses
import importlib
import json
import os
import sys
import time
from typing import Any

from bounded import ways
from bounded.spy import Spy
from bounded.workloads import WORKLOADS
from harness import processes


def main() -> None:
    """Makes the run that the only argument describes in JSON."""
    plan = json.loads(sys.argv[1])
    way = ways.named(plan["way"])
    if way.package:
        importlib.import_module(way.package)
    loop_factory = importlib.import_module("uvloop").new_event_loop if plan["uvloop"] else asyncio.new_event_loop
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        print(json.dumps(runner.run(_check(way, plan) if plan["check"] else _measure(way, plan))))


async def _check(way: ways.Way, plan: dict[str, Any]) -> dict[str, Any]:
    seen = await Spy(plan["tasks"]).watch(way.runner(), plan["limit"])
    return dataclasses.asdict(seen)


async def _measure(way: ways.Way, plan: dict[str, Any]) -> dict[str, Any]:
    run, work, limit = way.runner(), WORKLOADS[plan["workload"]], plan["limit"]
    peak_before = processes.peak_rss_bytes(os.getpid())
    await run(work, range(plan["warm_up"]), limit, 0)
    cpu_s, started = time.process_time(), time.perf_counter()
    total = await run(work, range(plan["tasks"]), limit, 0)
    elapsed_s = time.perf_counter() - started
    cpu_s = time.process_time() - cpu_s
    peak = processes.peak_rss_bytes(os.getpid())
    return {
        "total": total,
        "elapsed_s": elapsed_s,
        "cpu_s": cpu_s,
        "peak_rss_bytes": peak,
        "added_bytes": peak - peak_before,
    }


if __name__ == "__main__":
    main()
