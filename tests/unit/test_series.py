"""The points of a job's series are merged without a loss, and become columns with gaps where no run went on."""

import pytest

from headgate.jobs._series import Point, coarsened, columns, merged, percentile_us


def point(at_s: float, *, ms: int = 1000, rows: int = 10, bucket: int = 40, kind: str = "rate") -> Point:
    """A point that ends at this time."""
    return {
        "at_ms": round(at_s * 1000),
        "ms": ms,
        "succeeded": rows,
        "failed": 1,
        "attempts": rows + 1,
        "retried": 0,
        "received_bytes": 2 * rows,
        "stalled_ms": 0,
        "in_flight": 4,
        "concurrency": 8,
        "outcomes": {"2xx": rows, "5xx": 1},
        "latencies": {str(bucket): rows + 1},
        "bottlenecks": {kind: ms},
    }


def test_a_merged_point_has_the_sums_and_the_means_of_all() -> None:
    whole = merged([point(1), point(3, ms=2000, rows=20, bucket=44, kind="pause")])
    assert (3000, 3000, 30, 2, 4) == tuple(whole[name] for name in ("at_ms", "ms", "succeeded", "failed", "in_flight"))
    assert ({"2xx": 30, "5xx": 2}, {"40": 11, "44": 21}) == (whole["outcomes"], whole["latencies"])
    assert {"rate": 1000, "pause": 2000} == whole["bottlenecks"]


@pytest.mark.parametrize("number", [1, 24, 25, 1000])
def test_coarse_points_are_few_and_lose_nothing(number: int) -> None:
    coarse = coarsened([point(at) for at in range(number)], 24)
    assert len(coarse) <= 24
    assert number * 10 == sum(each["succeeded"] for each in coarse)


def test_percentiles_are_within_their_buckets() -> None:
    latencies = {"40": 90, "60": 10}
    median, slow = percentile_us(latencies, 0.5), percentile_us(latencies, 0.99)
    assert median is not None
    assert slow is not None
    assert 2 ** (40 / 4) <= median < 2 ** (41 / 4) < 2 ** (60 / 4) <= slow <= 2 ** (61 / 4)
    assert percentile_us({}, 0.5) is None


def test_columns_have_a_gap_where_no_run_went_on() -> None:
    found = columns([point(10), point(11, kind="pause"), point(100, ms=500)])
    assert [9, 10, 11, 11.001, 99.5, 100] == found["at"]
    assert [10, 10, 10, None, 20, 20] == found["succeeded"]
    assert {"rate": [1, 1, 0, None, 1, 1], "pause": [0, 0, 1, None, 0, 0]} == found["bottlenecks"]
    assert {len(found["at"])} == {len(values) for values in found.values() if isinstance(values, list)}


def test_times_of_columns_always_increase() -> None:
    points = [point(5), point(5), point(4, ms=60_000), point(4.0004)]
    times = columns(points)["at"]
    assert times == sorted(set(times))
    assert {"at": [], "outcomes": {}}.items() <= columns([]).items()
