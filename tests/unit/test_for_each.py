"""`for_each`: `amap` for what a function does, and not for what it returns."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from headgate import ConcurrencyLimit, Rate, Retry, TaskStatistics, TooManyErrors, for_each
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


def test_no_items_are_no_work() -> None:
    assert 0 == run_on_virtual_clock(for_each(Work(), [], limit=3)).taken


def test_items_may_come_in_their_own_time() -> None:
    async def slowly() -> AsyncIterator[str]:
        for item in "abc":
            await asyncio.sleep(10)
            yield item

    work = Work()
    assert 3 == run_on_virtual_clock(for_each(work, slowly(), limit=2)).succeeded
    assert [(10, "a"), (20, "b"), (30, "c")] == work.began


def test_the_first_error_cancels_the_rest_and_waits_for_its_end() -> None:
    work = Work(a=1)

    async def slow(item: str) -> str:
        if item == "b":
            await asyncio.sleep(0.5)
        return await work(item)

    async def main() -> float:
        with pytest.raises(LookupError, match="a"):
            await for_each(slow, ["a", "b", "c"], limit=2)
        return asyncio.get_running_loop().time()

    assert 6 == run_on_virtual_clock(main())
    assert (0, 1) == (work.running, work.cancelled)
    assert ["a", "b"] == [item for _, item in work.began]


def test_cancelling_it_cancels_what_runs_and_waits_for_its_end() -> None:
    work = Work()

    async def main() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await for_each(work, ["a", "b", "c"], limit=2)
        return asyncio.get_running_loop().time()

    assert 5.5 == run_on_virtual_clock(main())
    assert (0, 2) == (work.running, work.cancelled)


def test_errors_may_be_skipped_and_are_counted() -> None:
    done = run_on_virtual_clock(for_each(Work(a=1, c=1), ["a", "b", "c"], limit=2, errors="skip"))
    assert (1, 2) == (done.succeeded, done.failed)


def test_too_many_errors_end_it() -> None:
    with pytest.raises(TooManyErrors, match="3 items failed, and max_errors is 2") as caught:
        run_on_virtual_clock(for_each(Work(a=9), ["a"] * 9, limit=1, errors="skip", max_errors=2))
    assert isinstance(caught.value.__cause__, LookupError)


def test_a_failed_item_is_tried_again() -> None:
    work = Work(a=2)
    done = run_on_virtual_clock(for_each(work, ["a"], limit=1, retry=Retry(3, lambda _attempt, _error: 10)))
    assert [(0, "a"), (11, "a"), (22, "a")] == work.began
    assert (1, 0, 2) == (done.succeeded, done.failed, done.retried)


def test_a_call_may_take_no_longer_than_its_time() -> None:
    done = run_on_virtual_clock(for_each(asyncio.sleep, [1, 3], limit=2, timeout_s=2, errors="skip"))
    assert (1, 1) == (done.succeeded, done.failed)


def test_starts_are_spaced_by_the_rate_and_their_cost() -> None:
    work = Work()
    run_on_virtual_clock(for_each(work, ["a", "bb", "c"], limit=9, rate=Rate(1, per_s=1, burst=2), cost=len))
    assert [(0, "a"), (1, "bb"), (2, "c")] == work.began


def test_of_each_key_only_so_many_are_under_way() -> None:
    work = Work()
    items = ["a1", "a2", "b1"]
    run_on_virtual_clock(for_each(work, items, limit=9, key=lambda item: item[0], per_key=1))
    assert [(0, "a1"), (0, "b1"), (1, "a2")] == work.began


def test_a_limit_may_be_shared() -> None:
    work = Work()

    async def main() -> None:
        limit = ConcurrencyLimit(2)
        async with asyncio.TaskGroup() as group:
            group.create_task(for_each(work, list("abc"), limit=limit))
            group.create_task(for_each(work, list("def"), limit=limit))

    run_on_virtual_clock(main())
    assert 6 == len(work.began)
    assert 2 == work.most


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
    with pytest.raises(ValueError, match="errors must be one of raise, skip, not 'yield'; for outcomes, use amap"):
        run_on_virtual_clock(for_each(Work(), "a", limit=1, errors="yield"))  # type: ignore[arg-type]
