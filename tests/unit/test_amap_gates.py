"""What may stand between an item and its start: keys, shared limits, rates, and the wait for another attempt."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import count
from typing import Any

import pytest

from headgate import ConcurrencyLimit, Rate, Retry, TaskStatistics, amap
from support.virtual_clock import run_on_virtual_clock


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Calls:
    """A function that takes some seconds, fails as often as it is told to, and notes when it was called."""

    def __init__(self, seconds: float = 0, *, failures: dict[Any, int] | None = None) -> None:
        self._seconds = seconds
        self._failures = failures or {}
        self._counts: Counter[Any] = Counter()
        self._running = 0
        self.most = 0
        self.starts: list[tuple[Any, float]] = []

    async def __call__(self, item: Any) -> Any:
        self.starts.append((item, now_s()))
        self._counts[item] += 1
        attempt = self._counts[item]
        self._running += 1
        self.most = max(self.most, self._running)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._running -= 1
        if attempt <= self._failures.get(item, 0):
            raise ValueError(item)
        return item


async def collected(results: Any) -> list[Any]:
    async with results:
        return [result async for result in results]


def all_of(function: Callable[[Any], Awaitable[Any]], items: Any, **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        return await collected(amap(function, items, **options))

    return run_on_virtual_clock(main())


def wait_s(seconds: float) -> Callable[[int, Exception], float]:
    return lambda _attempt, _error: seconds


class TestTimeouts:
    def test_an_attempt_that_takes_too_long_is_cancelled_and_fails(self) -> None:
        with pytest.raises(TimeoutError, match="the attempt took longer than timeout_s=3"):
            all_of(Calls(5), [1], limit=1, timeout_s=3)

    def test_each_attempt_has_its_own_time(self) -> None:
        calls = Calls(5)
        (outcome,) = all_of(calls, [1], limit=1, timeout_s=3, retry=Retry(3, wait_s(1)), errors="yield")
        assert [(1, 0), (1, 4), (1, 8)] == calls.starts
        assert (3, 3, TimeoutError) == (outcome.attempts, outcome.elapsed_s, type(outcome.error))

    def test_a_timeout_of_the_function_itself_stays_its_own(self) -> None:
        async def time_out(_item: int) -> None:
            raise TimeoutError("mine")

        with pytest.raises(TimeoutError, match="mine"):
            all_of(time_out, [1], limit=1, timeout_s=3)

    def test_the_wait_for_a_gate_does_not_count(self) -> None:
        assert [1, 2] == all_of(Calls(2), [1, 2], limit=2, timeout_s=3, rate=Rate(1, per_s=100))


class TestRetries:
    def test_what_succeeds_in_time_is_a_result(self) -> None:
        calls = Calls(1, failures={1: 2})
        assert [1] == all_of(calls, [1], limit=1, retry=Retry(3, wait_s(10)))
        assert [(1, 0), (1, 11), (1, 22)] == calls.starts

    def test_the_last_error_is_raised_with_its_number(self) -> None:
        with pytest.raises(ValueError, match="1") as raised:
            all_of(Calls(failures={1: 9}), [1], limit=1, retry=Retry(3, 0))
        assert ["attempt 3 of 3", "raised for the item 1"] == raised.value.__notes__

    def test_an_error_that_is_not_meant_is_not_tried_again(self) -> None:
        calls = Calls(failures={1: 9})
        with pytest.raises(ValueError, match="1"):
            all_of(calls, [1], limit=1, retry=Retry(3, 0, on=OSError))
        assert 1 == len(calls.starts)

    def test_one_holds_no_slot_while_it_waits(self) -> None:
        calls = Calls(1, failures={0: 1})
        assert [1, 2, 0] == all_of(calls, range(3), limit=1, retry=Retry(2, wait_s(1.5)))
        assert [(0, 0), (1, 1), (2, 2), (0, 3)] == calls.starts

    def test_one_holds_no_shared_slot_while_it_waits(self) -> None:
        limit = ConcurrencyLimit(1)
        free = []

        async def main() -> list[int]:
            asyncio.get_running_loop().call_later(5, lambda: free.append(limit.in_use))
            return await collected(amap(Calls(1, failures={0: 1}), [0], limit=limit, retry=Retry(2, wait_s(10))))

        assert [0] == run_on_virtual_clock(main())
        assert [0] == free

    def test_one_holds_no_place_of_its_key_while_it_waits(self) -> None:
        calls = Calls(1, failures={0: 1})
        retry = Retry(2, wait_s(10))
        assert [1, 0] == all_of(calls, range(2), limit=5, retry=retry, key=lambda _: "key", per_key=1)
        assert [(0, 0), (1, 1), (0, 11)] == calls.starts

    def test_one_that_is_due_comes_before_new_items(self) -> None:
        calls = Calls(1, failures={0: 1})
        all_of(calls, range(4), limit=1, retry=Retry(2, wait_s(0.5)))
        assert [0, 1, 0, 2, 3] == [item for item, _ in calls.starts]

    def test_those_that_wait_count_against_the_bound(self) -> None:
        calls = Calls(failures=dict.fromkeys(range(100), 1))

        async def main() -> TaskStatistics:
            async with amap(calls, count(), limit=2, buffer=3, retry=Retry(2, wait_s(60))) as results:
                await asyncio.sleep(50)
                return results.statistics()

        now = run_on_virtual_clock(main())
        assert (5, 5, 0, 5) == (now.taken, now.waiting, now.running, now.retried)

    @pytest.mark.parametrize("errors", ["raise", "yield", "skip"])
    def test_stopping_is_never_retried(self, errors: Any) -> None:
        starts = []

        async def cancel(item: int) -> None:
            starts.append(item)
            raise asyncio.CancelledError

        with pytest.raises(asyncio.CancelledError):
            all_of(cancel, [1], limit=1, retry=Retry(3, 0), errors=errors)
        assert [1] == starts

    def test_a_mistake_in_backoff_is_raised_with_the_error_before_it(self) -> None:
        def backoff(_attempt: int, _error: Exception) -> float:
            raise KeyError("backoff")

        with pytest.raises(KeyError, match="backoff") as raised:
            all_of(Calls(failures={1: 1}), [1], limit=1, retry=Retry(3, backoff))
        assert isinstance(raised.value.__context__, ValueError)

    def test_an_error_that_backoff_raises_again_is_not_its_own_context(self) -> None:
        def backoff(_attempt: int, error: Exception) -> float:
            raise error

        with pytest.raises(ValueError, match="1") as raised:
            all_of(Calls(failures={1: 1}), [1], limit=1, retry=Retry(3, backoff))
        assert raised.value is not raised.value.__context__

    def test_one_that_takes_the_room_of_an_item_that_the_source_works_on_does_not_cost_that_item(self) -> None:
        async def source() -> AsyncIterator[int]:
            yield 0
            yield 1
            for item in (2, 3, 4):
                await asyncio.sleep(2)
                yield item

        attempts: Counter[int] = Counter()

        async def work(item: int) -> int:
            attempts[item] += 1
            if attempts[item] == 1:
                await asyncio.sleep(item / 2)
                raise ValueError
            await asyncio.sleep(10)
            return item

        assert [0, 1, 2, 3, 4] == sorted(all_of(work, source(), limit=2, buffer=10, retry=Retry(2, wait_s(1))))


class TestRates:
    def test_starts_are_spaced(self) -> None:
        calls = Calls()
        all_of(calls, range(4), limit=10, rate=Rate(2, per_s=1))
        assert [0, 0.5, 1, 1.5] == [at_s for _, at_s in calls.starts]

    def test_costs_are_weights(self) -> None:
        calls = Calls()
        all_of(calls, [1, 3, 2, 4], limit=10, rate=Rate(1, per_s=1, burst=4), cost=lambda item: item)
        assert [(1, 0), (3, 0), (2, 2), (4, 6)] == calls.starts

    def test_each_attempt_spends_its_cost(self) -> None:
        calls = Calls(failures={1: 1})
        all_of(calls, [1, 2], limit=10, rate=Rate(1, per_s=10), retry=Retry(2, 0))
        assert [(1, 0), (2, 10), (1, 20)] == calls.starts

    def test_a_cost_above_the_capacity_fails_and_does_not_wait_for_ever(self) -> None:
        options: dict[str, Any] = {"limit": 10, "rate": Rate(1, burst=5), "cost": lambda item: item}
        with pytest.raises(ValueError, match="cost is 6, but burst is 5") as raised:
            all_of(Calls(), [1, 6, 2], **options)
        assert ["raised for the item 6"] == raised.value.__notes__

    def test_an_item_whose_cost_fails_fails_alone(self) -> None:
        def cost(item: int) -> float:
            if item == 1:
                raise KeyError(item)
            return 1

        first, second, third = all_of(Calls(), range(3), limit=1, rate=Rate(1), cost=cost, errors="yield", ordered=True)
        assert [0, 2] == [first.unwrap(), third.unwrap()]
        assert (KeyError, 0, 0) == (type(second.error), second.attempts, second.elapsed_s)

    def test_one_rate_may_be_shared_by_two_maps(self) -> None:
        calls = Calls()

        async def main() -> None:
            rate = Rate(1, per_s=1)
            await asyncio.gather(*(collected(amap(calls, [name] * 3, limit=5, rate=rate)) for name in "ab"))

        run_on_virtual_clock(main())
        assert [0, 1, 2, 3, 4, 5] == [at_s for _, at_s in calls.starts]
        assert list("aababb") == [name for name, _ in calls.starts]

    def test_a_rate_that_is_changed_while_it_is_waited_for_is_obeyed(self) -> None:
        calls = Calls()

        async def main() -> None:
            rate = Rate(1, per_s=1000)
            asyncio.get_running_loop().call_later(5, lambda: rate.change(1, per_s=1))
            await collected(amap(calls, range(3), limit=5, rate=rate))

        run_on_virtual_clock(main())
        assert all(at_s < 10 for _, at_s in calls.starts)

    def test_a_burst_that_is_made_too_small_for_who_waits_fails_the_item(self) -> None:
        async def main() -> list[Any]:
            rate = Rate(1, per_s=1, burst=4)
            asyncio.get_running_loop().call_later(1, lambda: rate.change(1, per_s=1, burst=2))
            return await collected(amap(Calls(), [4, 3, 1], limit=5, rate=rate, cost=lambda item: item, errors="skip"))

        assert [4, 1] == run_on_virtual_clock(main())


class TestKeys:
    def test_so_many_of_one_key_run_at_most_and_others_pass_by(self) -> None:
        calls = Calls(1)
        all_of(calls, ["a1", "a2", "a3", "b1", "a4", "c1"], limit=3, key=lambda item: item[0], per_key=1)
        assert [("a1", 0), ("b1", 0), ("c1", 0), ("a2", 1), ("a3", 2), ("a4", 3)] == calls.starts

    def test_those_that_are_held_count_against_the_bound(self) -> None:
        async def main() -> TaskStatistics:
            async with amap(Calls(1000), count(), limit=2, buffer=3, key=lambda _: 0, per_key=1) as results:
                await asyncio.sleep(1)
                return results.statistics()

        now = run_on_virtual_clock(main())
        assert (5, 1, 4) == (now.taken, now.running, now.waiting)

    @pytest.mark.parametrize(("key", "kind"), [(lambda item: {}[item], KeyError), (lambda _: [], TypeError)])
    def test_an_item_whose_key_fails_or_is_none_fails_alone(self, key: Any, kind: type[Exception]) -> None:
        outcomes = all_of(
            Calls(), [0, 1, 2], limit=1, key=lambda item: key(item) if item == 1 else 0, per_key=1, errors="yield"
        )
        assert {0: None, 1: kind, 2: None} == {each.item: each.error and type(each.error) for each in outcomes}
        assert [0] == [each.attempts for each in outcomes if each.error]

    @pytest.mark.parametrize("argument", ["key", "cost"])
    def test_a_cancellation_that_a_key_or_cost_raises_is_raised(self, argument: str) -> None:
        def cancel(item: int) -> int:
            if item == 2:
                raise asyncio.CancelledError
            return 1

        options: dict[str, Any] = {argument: cancel}
        options |= {"per_key": 1} if argument == "key" else {"rate": Rate(1)}
        with pytest.raises(asyncio.CancelledError):
            all_of(Calls(1), range(5), limit=1, errors="skip", **options)


class TestSharedLimits:
    def test_two_maps_stay_under_it_together(self) -> None:
        calls = Calls(1)
        limit = ConcurrencyLimit(3)

        async def main() -> float:
            await asyncio.gather(*(collected(amap(calls, range(9), limit=limit)) for _ in range(2)))
            return now_s()

        assert 6 == run_on_virtual_clock(main())
        assert (3, 3, 0) == (calls.most, limit.statistics().most_in_use, limit.in_use)

    def test_it_may_be_resized_while_it_runs(self) -> None:
        calls = Calls(1)

        async def main() -> None:
            limit = ConcurrencyLimit(1)
            asyncio.get_running_loop().call_later(1.5, limit.resize, 4)
            asyncio.get_running_loop().call_later(2.6, limit.resize, 1)
            await collected(amap(calls, range(9), limit=limit))

        run_on_virtual_clock(main())
        assert [0, 1, 1.5, 1.5, 1.5, 2, 2.5, 2.5, 2.5] == [at_s for _, at_s in calls.starts]

    def test_what_is_cancelled_gives_its_slots_back_when_it_has_ended(self) -> None:
        limit = ConcurrencyLimit(2)
        free = []

        async def work(_item: int) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(1)
                free.append(limit.in_use)

        async def main() -> None:
            async with amap(work, range(9), limit=limit):
                await asyncio.sleep(5)

        run_on_virtual_clock(main())
        assert [2, 2] == free
        assert (0, 0) == (limit.in_use, limit.statistics().waiting)

    def test_gates_are_passed_in_the_order_key_limit_rate(self) -> None:
        async def main() -> list[tuple[str, float, int, int]]:
            limit, rate = ConcurrencyLimit(2), Rate(1, per_s=10)
            seen = []

            async def work(item: str) -> None:
                seen.append((item, now_s(), limit.in_use, rate.statistics().granted))
                await asyncio.sleep(15)

            await collected(
                amap(work, ["a1", "a2", "b1", "b2"], limit=limit, rate=rate, key=lambda item: item[0], per_key=1)
            )
            return seen

        # b1 passes a2, which waits for its key, and holds the second slot while it waits for the rate.
        assert [("a1", 0, 2, 1), ("b1", 10, 2, 2), ("a2", 20, 2, 3), ("b2", 30, 2, 4)] == run_on_virtual_clock(main())


class TestStop:
    def test_it_gives_back_those_that_wait_and_were_never_started_in_their_order(self) -> None:
        calls = Calls(10)

        async def main() -> tuple[list[str], list[str], TaskStatistics]:
            items = ["a1", "a2", "a3", "b1", "b2"]
            async with amap(calls, items, limit=3, key=lambda item: item[0], per_key=1) as results:
                await asyncio.sleep(1)
                unstarted = results.stop()
                return unstarted, [result async for result in results], results.statistics()

        unstarted, delivered, now = run_on_virtual_clock(main())
        assert (["a2", "a3", "b2"], ["a1", "b1"]) == (unstarted, delivered)
        assert (5, 2, 0, 3, 0) == (now.taken, now.succeeded, now.cancelled, now.unstarted, now.waiting)

    @pytest.mark.parametrize("gate", [{"rate": Rate(1, per_s=1000)}, {"limit": ConcurrencyLimit(1)}])
    def test_it_gives_back_the_one_that_waits_at_the_gate(self, gate: dict[str, Any]) -> None:
        async def main() -> tuple[list[int], list[int]]:
            async with amap(Calls(10), count(), **({"limit": 1} | gate)) as results:
                await asyncio.sleep(1)
                return results.stop(), [result async for result in results]

        unstarted, delivered = run_on_virtual_clock(main())
        assert [0] == delivered
        assert unstarted in ([], [1])

    def test_one_that_is_tried_again_is_finished(self) -> None:
        calls = Calls(failures={0: 1})

        async def main() -> tuple[list[int], list[int]]:
            async with amap(calls, count(), limit=1, buffer=0, retry=Retry(2, wait_s(10))) as results:
                await asyncio.sleep(1)
                return results.stop(), [result async for result in results]

        assert ([], [0]) == run_on_virtual_clock(main())

    @pytest.mark.parametrize("key", [{}, {"key": lambda _: 0, "per_key": 1}])
    def test_one_that_is_tried_again_is_finished_also_behind_one_that_is_given_back(self, key: dict[str, Any]) -> None:
        calls = Calls(failures={0: 1})

        async def main() -> tuple[list[int], list[int]]:
            retry, rate = Retry(2, wait_s(1)), Rate(1, per_s=100)
            async with amap(calls, [0, 1], limit=1, retry=retry, rate=rate, **key) as results:
                await asyncio.sleep(50)
                return results.stop(), [result async for result in results]

        assert ([1], [0]) == run_on_virtual_clock(main())

    def test_an_item_that_was_read_ahead_of_a_gate_is_given_back_too(self) -> None:
        given = []

        async def source() -> AsyncIterator[int]:
            for item in range(9):
                await asyncio.sleep(1)
                given.append(item)
                yield item

        async def main() -> tuple[list[int], list[int]]:
            async with amap(Calls(0.5), source(), limit=3, rate=Rate(1, per_s=100)) as results:
                await asyncio.sleep(50)
                return results.stop(), [result async for result in results]

        unstarted, delivered = run_on_virtual_clock(main())
        assert given == delivered + unstarted
        assert [0] == delivered

    def test_an_item_that_the_source_gives_when_it_has_stopped_the_map_has_its_time_limit(self) -> None:
        async def main() -> list[str]:
            def source() -> Iterator[int]:
                yield 0
                results.stop()
                yield 1

            results = amap(asyncio.sleep, source(), limit=1, timeout_s=0.5, errors="yield")
            return [type(outcome.error).__name__ for outcome in await collected(results)]

        assert ["NoneType", "TimeoutError"] == run_on_virtual_clock(main())

    def test_a_cost_that_stops_the_map_gives_its_item_back(self) -> None:
        calls = Calls()
        unstarted: list[int] = []

        async def main() -> list[int]:
            def cost(item: int) -> float:
                if item == 1:
                    unstarted.extend(results.stop())
                return 1

            results = amap(calls, range(4), limit=4, rate=Rate(1, burst=4), cost=cost, ordered=True)
            return await collected(results)

        assert [0] == run_on_virtual_clock(main())
        assert ([1], [(0, 0)]) == (unstarted, calls.starts)

    def test_an_error_that_it_brings_to_the_head_ends_the_map(self) -> None:
        async def work(item: str) -> str:
            if item == "fails":
                raise ValueError
            await asyncio.sleep(10 if item == "x1" else 1000)
            return item

        async def main() -> tuple[list[str], list[str]]:
            keys = {"x1": 0, "x2": 0, "fails": 1, "x3": 0}
            seen: list[str] = []
            async with amap(work, keys, limit=4, ordered=True, key=lambda item: keys[item], per_key=1) as results:
                await asyncio.sleep(5)
                unstarted = results.stop()
                with pytest.raises(ValueError, match="raised for the item 'fails'"):  # noqa: PT012 - and what came before
                    async for result in results:
                        seen.append(result)  # noqa: PERF401 - it is wanted after the error
            return unstarted, seen

        assert (["x2", "x3"], ["x1"]) == run_on_virtual_clock(main())

    def test_an_error_that_is_at_the_head_when_it_is_called_ends_the_map(self) -> None:
        async def work(item: str) -> str:
            if item == "fails":
                raise ValueError
            await asyncio.sleep(0 if item == "first" else 1000)
            return item

        async def main() -> list[str]:
            keys = {"first": 0, "held": 0, "fails": 1, "runs": 2, "held too": 0}
            rate = Rate(1, per_s=1000, burst=3)
            async with amap(
                work, keys, limit=4, rate=rate, ordered=True, key=lambda item: keys[item], per_key=1
            ) as results:
                assert "first" == await anext(results)
                await asyncio.sleep(1)
                unstarted = results.stop()
                with pytest.raises(ValueError, match="raised for the item 'fails'"):
                    await anext(results)
            return unstarted

        assert ["held", "held too"] == run_on_virtual_clock(main())
