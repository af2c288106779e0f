"""The series of a job, as the engine stores it: its points, merged for tables, and the columns that are plotted."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final, TypeAlias

Point: TypeAlias = Mapping[str, Any]
"""What happened in an interval, under the names of the engine: counts, and counts by name."""

_SUMS: Final = ("ms", "succeeded", "failed", "retried", "received_bytes", "stalled_ms")
_MEANS: Final = ("in_flight", "concurrency")
_COUNTS: Final = ("outcomes", "latencies", "bottlenecks")
_BUCKETS_PER_DOUBLING: Final = 8
_PERCENTILES: Final = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_MILLISECONDS: Final = 1000
_GAP_MS: Final = 1500
"""Points are further apart if no run of the job was going on between them."""

_DIGITS: Final = 4


def merged(points: Sequence[Point]) -> dict[str, Any]:
    """Returns one point for consecutive ones, of which there is at least one."""
    whole: dict[str, Any] = {name: sum(point[name] for point in points) for name in _SUMS}
    weights = max(whole["ms"], 1)
    for name in _MEANS:
        whole[name] = sum(point[name] * point["ms"] for point in points) / weights
    for name in _COUNTS:
        counts = Counter[str]()
        for point in points:
            counts.update(point[name])
        whole[name] = dict(counts)
    return whole | {"at_ms": points[-1]["at_ms"]}


def coarsened(points: Sequence[Point], most: int) -> list[Point]:
    """Returns at most so many points, merged from neighbours."""
    if len(points) <= most:
        return list(points)
    size = -(-len(points) // most)
    return [merged(points[at : at + size]) for at in range(0, len(points), size)]


def joined(points: Sequence[Point]) -> list[Point]:
    """Returns the points in order of time, each short one in one with the point before it.

    The last point of a run may have some milliseconds, whose rate means nothing.
    """
    found: list[Point] = []
    shortest_ms = median(point["ms"] for point in points) / 2 if points else 0
    for point in sorted(points, key=lambda point: point["at_ms"]):
        is_short = bool(found) and point["ms"] < shortest_ms
        if is_short and point["at_ms"] - point["ms"] - found[-1]["at_ms"] <= _GAP_MS:
            found[-1] = merged([found[-1], point])
        else:
            found.append(point)
    return found


def percentile_us(latencies: Mapping[str, int], fraction: float) -> float | None:
    """Returns a percentile of latencies in microseconds, off by 5 % at most; `None`: there are none."""
    rank, below = fraction * sum(latencies.values()), 0
    for bucket, count in sorted((int(bucket), count) for bucket, count in latencies.items()):
        below += count
        if below >= rank:
            return float(2 ** ((bucket + 0.5) / _BUCKETS_PER_DOUBLING))
    return None


def columns(points: Sequence[Point]) -> dict[str, Any]:
    """Returns what is plotted, as lists of the same length: times in seconds since 1970, rates, shares and percentiles.

    The points must be in order of time. Where no run of the job was going on, values are `None`. A value holds for the
    time before it.
    """
    rows = list(_rows(points))
    names = {key: sorted({name for point in points for name in point[key]}) for key in ("outcomes", "bottlenecks")}
    kinds = merged(points)["bottlenecks"] if points else {}
    names["bottlenecks"].sort(key=lambda kind: (-kinds[kind], kind))

    def listed(name: str, unit: int = _MILLISECONDS) -> list[float | None]:
        return [None if point is None else _rounded(point[name] * unit / _length(point)) for _, point in rows]

    def by_name(key: str, unit: int) -> dict[str, list[float | None]]:
        return {
            name: [None if at is None else _rounded(at[key].get(name, 0) * unit / _length(at)) for _, at in rows]
            for name in names[key]
        }

    def percentiles(fraction: float) -> list[float | None]:
        found = (None if point is None else percentile_us(point["latencies"], fraction) for _, point in rows)
        return [None if us is None else _rounded(us) for us in found]

    return {
        "at": [at for at, _ in rows],
        **{name: listed(name) for name in ("succeeded", "failed", "retried")},
        "received": listed("received_bytes"),
        **{name: [None if point is None else round(point[name], 1) for _, point in rows] for name in _MEANS},
        **{name: percentiles(fraction) for name, fraction in _PERCENTILES.items()},
        "outcomes": by_name("outcomes", _MILLISECONDS),
        "bottlenecks": by_name("bottlenecks", 1),
    }


def _rows(points: Sequence[Point]) -> Iterator[tuple[float, Point | None]]:
    """Yields increasing times in seconds, each with its point, or `None` where a gap begins."""
    last_ms = 0.0
    for index, point in enumerate(points):
        end_ms = float(point["at_ms"])
        start_ms = end_ms - point["ms"]
        if index == 0 or start_ms - last_ms > _GAP_MS:
            if index:
                yield (last_ms + 1) / _MILLISECONDS, None
            last_ms = max(start_ms, last_ms + 2)
            yield last_ms / _MILLISECONDS, point
        last_ms = max(end_ms, last_ms + 1)
        yield last_ms / _MILLISECONDS, point


def _length(point: Point) -> int:
    return int(max(point["ms"], 1))


def _rounded(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")
