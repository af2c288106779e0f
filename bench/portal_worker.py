"""Runs one way in a fresh interpreter. `portal.py` starts it and reads its line of JSON."""

import asyncio
import json
import sys
import threading
import time
from importlib import import_module

from crossing.ways import WAYS, Call

_WARM_UP = 200


async def _one() -> int:
    return 1


def main() -> None:
    """Makes the run that the only argument describes in JSON."""
    plan = json.loads(sys.argv[1])
    threads, each = plan["threads"], plan["calls"] // plan["threads"]
    loop_factory = asyncio.new_event_loop if plan["loop"] == "asyncio" else import_module("uvloop").new_event_loop
    with WAYS[plan["way"]](loop_factory) as call:
        _run(call, threads, _WARM_UP)
        cpu_s, wall_s, total = _run(call, threads, each)
    calls = threads * each
    wrong = "" if total == calls else f"{total} calls have returned, not {calls}"
    print(json.dumps({"cpu_us": 1e6 * cpu_s / calls, "wall_us": 1e6 * wall_s / calls, "wrong": wrong}))


def _run(call: Call, threads: int, each: int) -> tuple[float, float, int]:
    """Returns CPU and time of all calls, and the sum of their results."""
    totals: list[int] = []
    ready = threading.Barrier(threads + 1)

    def work() -> None:
        ready.wait()
        totals.append(sum(call(_one) for _ in range(each)))

    started = [threading.Thread(target=work) for _ in range(threads)]
    for thread in started:
        thread.start()
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    ready.wait()
    for thread in started:
        thread.join()
    return time.process_time() - cpu_s, time.perf_counter() - wall_s, sum(totals)


if __name__ == "__main__":
    main()
