"""`for_each`: `amap` for what a function does, and not for what it returns."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from headgate import ConcurrencyLimit, Rate, Retry, TaskStatistics, for_each
from support.virtual_clock import run_on_virtual_clock


class Work:
    """Takes a second for each item; fails for those that are told, so often. Counts."""

    def __init__(self, **failures: int) -> None:
        self._failures = Counter(failures)
        self.running = self.most = self.cancelled = 0
        self.began: list[tuple[float, str]] = []

    async def __call__(self, item: str) -> str:
        self.began.append((asyncio.get_running_loop().time(), item))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            await asyncio.sleep(5)
            self.cancelled += 1
            raise
        finally:
            self.running -= 1
        if self._failures[item]:
            self._failures[item] -= 1
            raise LookupError(item)
        return item


def test_every_item_is_worked_on_and_never_more_than_the_limit_at_once() -> None:
    work = Work()
    done = run_on_virtual_clock(for_each(work, list("abcdefg"), limit=3))
    assert list("abcdefg") == [item for _, item in work.began]
    assert 3 == work.most
    assert [0, 0, 0, 1, 1, 1, 2] == [began_s for began_s, _ in work.began]
    assert done == TaskStatistics(
        taken=7, running=0, waiting=0, uncollected=0, succeeded=7, failed=0, cancelled=0, unstarted=0, retried=0
    )


def test_errors_may_be_skipped_and_are_counted() -> None:
    done = run_on_virtual_clock(for_each(Work(a=1, c=1), ["a", "b", "c"], limit=2, errors="skip"))
    assert (1, 2) == (done.succeeded, done.failed)


def test_what_cannot_be_is_refused_before_anything_starts() -> None:
    work = Work()
    with pytest.raises(ValueError, match="limit must be at least 1"):
        run_on_virtual_clock(for_each(work, ["a"], limit=0))
    with pytest.raises(ValueError, match="key and per_key go together"):
        run_on_virtual_clock(for_each(work, ["a"], limit=1, per_key=1))
    assert [] == work.began


def test_a_function_that_blocks_is_called_once_before_it_is_refused() -> None:
    called: list[int] = []
    with pytest.raises(TypeError, match="the function returned None, which cannot be awaited"):
        run_on_virtual_clock(for_each(called.append, range(1000), limit=100))  # type: ignore[arg-type]
    assert [0] == called


def test_outcomes_nobody_would_see_are_refused() -> None:
    with pytest.raises(ValueError, match="errors must be one of 'raise', 'skip', not 'yield'; for outcomes, use amap"):
        run_on_virtual_clock(for_each(Work(), "a", limit=1, errors="yield"))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "began"),
    [
        ({"retry": Retry(2, lambda _attempt, _error: 10)}, [(0, "a1"), (0, "a2"), (0, "b1"), (11, "a1")]),
        ({"limit": ConcurrencyLimit(2), "errors": "skip"}, [(0, "a1"), (0, "a2"), (1, "b1")]),
        ({"key": lambda item: item[0], "per_key": 1, "errors": "skip"}, [(0, "a1"), (0, "b1"), (1, "a2")]),
        ({"rate": Rate(1, burst=2), "cost": len, "errors": "skip"}, [(0, "a1"), (2, "a2"), (4, "b1")]),
        ({"timeout_s": 0.5, "errors": "skip", "max_errors": 3, "limit": 2}, [(0, "a1"), (0, "a2"), (5.5, "b1")]),
    ],
)
async def test_calls_are_bounded_as_those_of_amap(options: dict[str, Any], began: list[tuple[float, str]]) -> None:
    work = Work(a1=1)
    done = await for_each(work, ["a1", "a2", "b1"], **({"limit": 9} | options))
    assert began == work.began
    assert 3 == done.succeeded + done.failed
    assert done.retried == len(began) - 3
