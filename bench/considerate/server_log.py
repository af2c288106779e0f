"""What a client did and when, by the log of `headgate serve`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple


class Entry(NamedTuple):
    """One request: when its head had come, since the server was started, and how it was answered."""

    time_s: float
    status: str
    host: str
    target: str


def read(path: Path) -> list[Entry]:
    """In the order of their times."""
    with path.open() as lines:
        fields = (line.rstrip("\n").split("\t") for line in lines)
        return sorted(Entry(int(micros) / 1e6, status, host, target) for micros, status, host, target in fields)


def most_beyond(times_s: Iterable[float], rate_per_s: float) -> float:
    """By how much any window has more requests than the rate gives for its length: the burst that they needed."""
    lowest, most = float("inf"), 0.0
    for before, time_s in enumerate(times_s):
        level = before - rate_per_s * time_s
        lowest = min(lowest, level)
        most = max(most, level + 1 - lowest)
    return most


def too_early(entries: Sequence[Entry], pause_s: float, *, on_its_way_s: float) -> int:
    """How many came although a 429 had said `Retry-After`.

    Args:
        entries: Of one host, in order.
        pause_s: What each 429 says.
        on_its_way_s: What comes so soon after a 429 was sent before that was read.
    """
    count, told_s, until_s = 0, float("inf"), float("-inf")
    for entry in entries:
        if told_s + on_its_way_s < entry.time_s < until_s - on_its_way_s:
            count += 1
        if entry.status == "429":
            told_s = entry.time_s if entry.time_s >= until_s - on_its_way_s else told_s
            until_s = entry.time_s + pause_s
    return count
