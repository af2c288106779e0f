"""The points of a job's series are merged without a loss, and become columns with gaps where no run went on."""

import pytest

from headgate.jobs._series import Point, coarsened, columns, joined, merged, percentile_us


def point(at_s: float, *, ms: int = 1000, rows: int = 10, bucket: int = 40, kind: str = "rate") -> Point:
    """A point that ends at this time."""
    return {
        "at_ms": round(at_s * 1000),
        "ms": ms,
        "succeeded": rows,
        "failed": 1,
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
    assert 2 ** (40 / 8) <= median < 2 ** (41 / 8) < 2 ** (60 / 8) <= slow <= 2 ** (61 / 8)
    assert percentile_us({}, 0.5) is None


def test_a_constant_latency_has_one_percentile() -> None:
    constant = {"140": 1000}
    assert percentile_us(constant, 0.5) == percentile_us(constant, 0.99) == pytest.approx(200_000, rel=0.05)


def test_a_short_last_point_is_joined_with_the_one_before_it() -> None:
    points = joined([point(1, rows=50), point(1.004, ms=4, rows=2), point(9, ms=300), point(24, ms=15_000), point(25)])
    shown = [(each["at_ms"], each["ms"], each["succeeded"]) for each in points]
    assert [(1004, 1004, 52), (9000, 300, 10), (24_000, 15_000, 10), (25_000, 1000, 10)] == shown


def test_columns_have_a_gap_where_no_run_went_on() -> None:
    found = columns([point(10), point(11, kind="pause"), point(100, ms=500)])
    assert [9, 10, 11, 11.001, 99.5, 100] == found["at"]
    assert [10, 10, 10, None, 20, 20] == found["succeeded"]
    assert {"rate": [1, 1, 0, None, 1, 1], "pause": [0, 0, 1, None, 0, 0]} == found["bottlenecks"]
    assert {len(found["at"])} == {len(values) for values in found.values() if isinstance(values, list)}


def test_times_of_columns_always_increase() -> None:
    points = [point(5), point(5), point(4, ms=60_000), point(4.0004)]
    times = columns(sorted(points, key=lambda point: point["at_ms"]))["at"]
    assert times == sorted(set(times))
    assert {"at": [], "outcomes": {}}.items() <= columns([]).items()
