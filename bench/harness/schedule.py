"""The shortest possible time of requests with known durations and a bounded number in flight.

Little's law gives the rate in the middle of a job, concurrency / mean delay; at the end slots become idle one by one.
List scheduling models both: each request starts, in order, as soon as a slot is free, and all else takes no time.
"""

import heapq
import random
import statistics
from collections.abc import Iterable


def ideal_s(delays_s: Iterable[float], slots: int) -> float:
    """Returns the time from the first start to the last end."""
    ends: list[float] = []
    last = 0.0
    for delay_s in delays_s:
        start = 0.0 if len(ends) < slots else heapq.heappop(ends)
        heapq.heappush(ends, start + delay_s)
        last = max(last, start + delay_s)
    return last


def median_ideal_s(*, requests: int, slots: int, longest_s: int, simulations: int) -> float:
    """Returns the median of many simulations with random delays of 0 to `longest_s` whole seconds."""
    draws = random.Random(0)  # noqa: S311 - the same figure on every machine
    return statistics.median(
        ideal_s((draws.randint(0, longest_s) for _ in range(requests)), slots) for _ in range(simulations)
    )
