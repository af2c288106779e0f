"""`for_each`: `amap` for functions whose results are not needed."""

from typing import Any

import pytest

from headgate import ConcurrencyLimit, Rate, Retry, TaskStatistics, for_each
from support.maps import Calls, wait_s


async def test_every_item_is_worked_on_and_never_more_than_the_limit_at_once() -> None:
    calls = Calls(1)
    done = await for_each(calls, list("abcdefg"), limit=3)
    assert list(zip("abcdefg", [0, 0, 0, 1, 1, 1, 2], strict=True)) == calls.starts
    assert 3 == calls.most
    assert done == TaskStatistics(
        taken=7, running=0, waiting=0, uncollected=0, succeeded=7, failed=0, cancelled=0, unstarted=0, retried=0
    )


@pytest.mark.parametrize(
    ("options", "starts", "succeeded"),
    [
        ({"retry": Retry(2, wait_s(10))}, [("a1", 0), ("a2", 0), ("b1", 0), ("a1", 11)], 3),
        ({"limit": ConcurrencyLimit(2), "errors": "skip"}, [("a1", 0), ("a2", 0), ("b1", 1)], 2),
        ({"key": lambda item: item[0], "per_key": 1, "errors": "skip"}, [("a1", 0), ("b1", 0), ("a2", 1)], 2),
        ({"rate": Rate(1, burst=2), "cost": len, "errors": "skip"}, [("a1", 0), ("a2", 2), ("b1", 4)], 2),
        ({"timeout": 0.5, "errors": "skip", "max_failures": 3}, [("a1", 0), ("a2", 0), ("b1", 0)], 0),
    ],
)
async def test_calls_are_bounded_and_counted_as_those_of_amap(
    options: dict[str, Any], starts: list[tuple[str, float]], succeeded: int
) -> None:
    calls = Calls(1, failures={"a1": 1})
    done = await for_each(calls, ["a1", "a2", "b1"], **({"limit": 9} | options))
    assert starts == calls.starts
    assert (succeeded, 3 - succeeded, len(starts) - 3) == (done.succeeded, done.failed, done.retried)


async def test_wrong_arguments_are_refused_before_anything_starts() -> None:
    calls = Calls(1)
    with pytest.raises(ValueError, match="limit must be at least 1"):
        await for_each(calls, ["a"], limit=0)
    with pytest.raises(ValueError, match="key and per_key go together"):
        await for_each(calls, ["a"], limit=1, per_key=1)
    with pytest.raises(ValueError, match="errors must be one of raise, skip, not 'yield'; for outcomes, use amap"):
        await for_each(calls, "a", limit=1, errors="yield")  # type: ignore[arg-type]
    assert [] == calls.starts


async def test_a_function_that_blocks_is_called_once_before_it_is_refused() -> None:
    called: list[int] = []
    with pytest.raises(TypeError, match="the function returned None, which can't be awaited"):
        await for_each(called.append, range(1000), limit=100)  # type: ignore[arg-type]
    assert [0] == called
