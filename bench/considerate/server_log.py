"""Reads the log of `headgate serve`, which has the time of each request."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """A request: when its headers had arrived, since the start of the server, and the status of its response."""

    time_s: float
    status: str
    host: str
    target: str


def read(path: Path) -> list[Entry]:
    """Returns the entries in the order of their times."""
    with path.open() as lines:
        fields = (line.rstrip("\n").split("\t") for line in lines)
        return sorted(Entry(int(micros) / 1e6, status, host, target) for micros, status, host, target in fields)


def most_beyond(times_s: Iterable[float], rate_per_s: float) -> float:
    """Returns the burst that the requests needed: the largest excess of any window over the rate."""
    lowest, most = float("inf"), 0.0
    for before, time_s in enumerate(times_s):
        level = before - rate_per_s * time_s
        lowest = min(lowest, level)
        most = max(most, level + 1 - lowest)
    return most


def too_early(entries: Sequence[Entry], pause_s: float, *, on_its_way_s: float) -> int:
    """Returns how many requests came before the time in the `Retry-After` of a 429.

    Args:
        entries: The entries of one host, in order.
        pause_s: The `Retry-After` of each 429.
        on_its_way_s: A request this soon after a 429 was sent before the client had read it.
    """
    count, told_s, until_s = 0, float("inf"), float("-inf")
    for entry in entries:
        if told_s + on_its_way_s < entry.time_s < until_s - on_its_way_s:
            count += 1
        if entry.status == "429":
            told_s = entry.time_s if entry.time_s >= until_s - on_its_way_s else told_s
            until_s = entry.time_s + pause_s
    return count
