import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from itertools import count
from typing import Any

import pytest

from headgate import TaskOutcome, TaskStatistics, TooManyErrors, amap, for_each
from support.virtual_clock import run_on_virtual_clock

OPTIONS: tuple[dict[str, Any], ...] = ({}, {"ordered": True}, {"timeout_s": 5}, {"errors": "yield"})
"""Some that make a map go other ways."""


async def wait_that_long(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return seconds


async def fail(item: object) -> object:
    raise ValueError(item)


async def fail_if_odd(item: int) -> int:
    await asyncio.sleep(item)
    if item % 2:
        raise ValueError(item)
    return item


async def collected(results: Any) -> list[Any]:
    async with results:
        return [result async for result in results]


def all_of(function: Callable[[Any], Awaitable[Any]], items: Any, **options: Any) -> list[Any]:
    async def main() -> list[Any]:
        return await collected(amap(function, items, **options))

    return run_on_virtual_clock(main())


def now_s() -> float:
    return asyncio.get_running_loop().time()


class TestTheOrder:
    def test_results_come_as_they_finish(self) -> None:
        assert [1, 2, 3] == all_of(wait_that_long, [3, 1, 2], limit=3)

    def test_results_come_in_the_order_of_the_items_where_that_is_asked_for(self) -> None:
        assert [3, 1, 2] == all_of(wait_that_long, [3, 1, 2], limit=3, ordered=True)

    def test_no_items_give_no_results(self) -> None:
        assert [] == all_of(wait_that_long, [], limit=3)

    @pytest.mark.parametrize(("window", "expected"), [(0, 1), (1, 2), (4, 5)])
    def test_a_slow_head_stops_the_starts(self, window: int, expected: int) -> None:
        begun = []

        async def begin(item: int) -> None:
            begun.append(item)
            await asyncio.sleep(0 if item else 100)

        async def main() -> int:
            async with amap(begin, count(), limit=3, ordered=True, window=window):
                await asyncio.sleep(50)
                return len(begun)

        assert expected == run_on_virtual_clock(main())

    def test_without_a_window_limit_and_buffer_say_how_far_others_go_ahead_of_a_slow_head(self) -> None:
        begun = []

        async def begin(item: int) -> None:
            begun.append(item)
            await asyncio.sleep(0 if item else 100)

        async def main() -> int:
            async with amap(begin, count(), limit=3, ordered=True, buffer=4):
                await asyncio.sleep(50)
                return len(begun)

        assert 7 == run_on_virtual_clock(main())


class TestTheSource:
    def test_it_is_read_as_far_as_there_is_room(self) -> None:
        read = []

        def source() -> Iterator[int]:
            for item in count():
                read.append(item)
                yield item

        async def main() -> int:
            async with amap(wait_that_long, source(), limit=2, buffer=3):
                await asyncio.sleep(100)
                return len(read)

        assert 5 == run_on_virtual_clock(main())

    def test_nothing_is_read_before_the_first_step(self) -> None:
        read = []

        def source() -> Iterator[int]:
            read.append(0)
            yield 0

        async def main() -> list[int]:
            results = amap(wait_that_long, source(), limit=2)
            await asyncio.sleep(1)
            del results
            return read

        assert [] == run_on_virtual_clock(main())

    def test_one_that_is_slow_does_not_delay_results(self) -> None:
        async def source() -> AsyncIterator[int]:
            yield 1
            yield 2
            await asyncio.sleep(100)
            yield 3

        async def main() -> list[tuple[float, float]]:
            return [(result, now_s()) async for result in amap(wait_that_long, source(), limit=3)]

        assert [(1, 1), (2, 2), (3, 103)] == run_on_virtual_clock(main())

    def test_its_error_comes_after_the_results_of_all_that_was_started_and_once(self) -> None:
        async def source() -> AsyncIterator[int]:
            yield 5
            yield 1
            raise OSError("the source")

        async def main() -> list[object]:
            seen: list[object] = []
            results = amap(wait_that_long, source(), limit=3)
            for _ in range(2):
                try:
                    seen += [result async for result in results]
                    seen.append("end")
                except OSError as error:
                    seen.append(str(error))
            return seen

        async def one_by_one() -> list[object]:
            seen: list[object] = []
            async with amap(wait_that_long, source(), limit=3) as results:
                while len(seen) < 4:
                    try:
                        seen.append(await anext(results, "end"))
                    except OSError as error:
                        seen.append(str(error))
            return seen

        assert ["the source", "end"] == run_on_virtual_clock(main())
        assert [1, 5, "the source", "end"] == run_on_virtual_clock(one_by_one())

    def test_an_async_one_is_closed_when_the_block_is_left(self) -> None:
        closed = []

        async def source() -> AsyncIterator[int]:
            try:
                for item in count():
                    yield item
            finally:
                await asyncio.sleep(1)
                closed.append(asyncio.current_task())

        async def main() -> int:
            async with amap(wait_that_long, source(), limit=1) as results:
                assert 0 == await anext(results)
            return len(closed)

        assert 1 == run_on_virtual_clock(main())

    def test_one_that_was_closed_by_stop_ends_undisturbed_by_the_end_of_the_block(self) -> None:
        closed = []

        async def source() -> AsyncIterator[int]:
            try:
                yield 0
                yield await asyncio.sleep(1000, 1)
            finally:
                await asyncio.sleep(10)
                closed.append("closed")

        async def main() -> list[str]:
            async with amap(wait_that_long, source(), limit=2) as results:
                assert 0 == await anext(results)
                results.stop()
                await asyncio.sleep(1)
            return closed

        assert ["closed"] == run_on_virtual_clock(main())

    def test_an_item_that_ends_the_map_as_it_is_given_does_not_disturb_the_end_of_the_source(self) -> None:
        closed = []

        async def source() -> AsyncIterator[int]:
            try:
                await asyncio.sleep(1)
                yield 0
            finally:
                await asyncio.sleep(10)
                closed.append("closed")

        unhashable: Any = lambda _: []  # noqa: E731 - what a user may give

        async def main() -> list[str]:
            with pytest.raises(TypeError, match="unhashable"):
                await collected(amap(wait_that_long, source(), limit=2, key=unhashable, per_key=1))
            return closed

        assert ["closed"] == run_on_virtual_clock(main())

    def test_one_that_closes_its_own_map_is_told_that_it_cannot(self) -> None:
        async def source() -> AsyncIterator[int]:
            yield 0
            await results.aclose()

        async def main() -> None:
            with pytest.raises(RuntimeError, match="cannot wait for its own end"):
                await collected(results)

        results = amap(wait_that_long, source(), limit=1)
        run_on_virtual_clock(main())

    @pytest.mark.parametrize("end", [StopIteration, StopAsyncIteration])
    def test_what_looks_like_an_end_and_is_none_is_not_silent(self, end: type[Exception]) -> None:
        class Source:
            def __aiter__(self) -> "Source":
                return self

            async def __anext__(self) -> int:
                return 1

        def give(_item: int) -> Awaitable[int]:
            raise end

        with pytest.raises(RuntimeError):
            all_of(give, Source(), limit=1)


class TestErrors:
    def test_one_is_raised_after_the_results_that_come_before_it(self) -> None:
        async def main() -> list[float]:
            seen: list[float] = []
            with pytest.raises(ValueError, match="3"):  # noqa: PT012 - and what came before it
                async for result in amap(fail_if_odd, [0, 2, 3, 4, 6], limit=5):
                    seen.append(result)  # noqa: PERF401 - it is wanted when the loop is left by an error
            return [*seen, now_s()]

        assert [0, 2, 3] == run_on_virtual_clock(main())

    def test_in_order_those_before_it_are_waited_for(self) -> None:
        async def main() -> list[float]:
            seen: list[float] = []
            with pytest.raises(ValueError, match="1"):  # noqa: PT012 - as above
                async for result in amap(fail_if_odd, [4, 1, 2, 8], limit=5, ordered=True):
                    seen.append(result)  # noqa: PERF401 - as above
            return [*seen, now_s()]

        assert [4, 4] == run_on_virtual_clock(main())

    def test_the_rest_is_cancelled_and_awaited(self) -> None:
        ended = []

        async def work(item: int) -> None:
            if item == 0:
                raise ValueError
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(1)
                ended.append(item)

        with pytest.raises(ValueError, match="raised for the item"):
            all_of(work, range(3), limit=3)
        assert [1, 2] == ended

    def test_the_item_is_a_note_of_its_error(self) -> None:
        with pytest.raises(ValueError, match="x") as raised:
            all_of(fail, ["x"], limit=1)
        assert ["raised for the item 'x'"] == raised.value.__notes__

    def test_the_note_of_a_long_item_is_short(self) -> None:
        with pytest.raises(ValueError, match="x") as raised:
            all_of(fail, ["x" * 10_000], limit=1)
        assert len(raised.value.__notes__[0]) < 300

    def test_an_item_that_cannot_be_represented_is_named_by_its_type(self) -> None:
        class Unspeakable:
            def __repr__(self) -> str:
                raise OSError

        async def fail(_item: object) -> None:
            raise ValueError

        with pytest.raises(ValueError, match="raised for the item") as raised:
            all_of(fail, [Unspeakable()], limit=1)
        assert "Unspeakable" in raised.value.__notes__[0]

    def test_one_is_raised_also_when_its_item_has_too_many_digits_to_be_shown(self) -> None:
        async def refuse(_item: int) -> None:
            raise OSError

        with pytest.raises(OSError, match="raised for the item") as raised:
            all_of(refuse, [10**5000], limit=1)
        assert len(raised.value.__notes__[0]) < 300

    def test_yielded_outcomes_tell_all_of_each_item(self) -> None:
        first, second = all_of(fail_if_odd, [3, 2], limit=1, errors="yield")
        assert (0, 3, None, "3", 1, 3) == (
            first.index,
            first.item,
            first.value,
            str(first.error),
            first.attempts,
            first.elapsed_s,
        )
        assert (1, 2, 2, None, 1, 2) == (
            second.index,
            second.item,
            second.value,
            second.error,
            second.attempts,
            second.elapsed_s,
        )

    def test_an_outcome_unwraps_to_its_value_or_raises_its_error(self) -> None:
        outcomes: list[TaskOutcome[int, int]] = all_of(fail_if_odd, [2, 3], limit=1, errors="yield")
        assert 2 == outcomes[0].unwrap()
        with pytest.raises(ValueError, match="3"):
            outcomes[1].unwrap()

    def test_a_yielded_error_keeps_no_local_variable_alive(self) -> None:
        class Body:
            pass

        bodies: list[weakref.ref[Body]] = []

        async def read(_item: int) -> None:
            body = Body()
            bodies.append(weakref.ref(body))
            await asyncio.sleep(1)
            raise ValueError

        outcomes = all_of(read, range(3), limit=2, errors="yield")
        assert 3 == len(outcomes)
        assert [None] * 3 == [body() for body in bodies]

    def test_a_yielded_error_does_not_end_who_handed_it_over_and_goes_on(self) -> None:
        async def connect(connection: "asyncio.Future[None]") -> str:
            try:
                raise OSError  # noqa: TRY301 - as a call in its place would
            except OSError as error:
                connection.set_exception(error)
                await asyncio.sleep(10)
                return "went on"

        async def main() -> str:
            connection = asyncio.get_running_loop().create_future()
            connecting = asyncio.create_task(connect(connection))

            async def use(_item: int) -> None:
                await connection

            (outcome,) = await collected(amap(use, [1], limit=1, errors="yield"))
            assert isinstance(outcome.error, OSError)
            return await connecting

        assert "went on" == run_on_virtual_clock(main())

    def test_skipped_ones_are_only_counted(self) -> None:
        async def main() -> tuple[list[int], int, int]:
            async with amap(fail_if_odd, range(5), limit=2, errors="skip") as results:
                seen = [result async for result in results]
                return seen, results.statistics().succeeded, results.statistics().failed

        assert ([0, 2, 4], 3, 2) == run_on_virtual_clock(main())

    @pytest.mark.parametrize("errors", ["yield", "skip"])
    @pytest.mark.parametrize(("max_errors", "begun_at_least"), [(0, 1), (2, 3)])
    def test_more_failed_items_than_allowed_end_it(self, errors: Any, max_errors: int, begun_at_least: int) -> None:
        begun = []

        async def work(item: int) -> None:
            begun.append(item)
            raise ValueError(item)

        with pytest.raises(TooManyErrors, match=f"{begun_at_least} items failed") as raised:
            all_of(work, range(100), limit=1, errors=errors, max_errors=max_errors)
        assert isinstance(raised.value.__cause__, ValueError)
        assert list(range(begun_at_least)) == begun

    @pytest.mark.parametrize("errors", ["yield", "skip"])
    def test_as_many_failed_items_as_allowed_do_not_end_it(self, errors: Any) -> None:
        results = all_of(fail_if_odd, [0, 1, 2, 3, 4], limit=1, errors=errors, max_errors=2)
        assert (5 if errors == "yield" else 3) == len(results)

    @pytest.mark.parametrize("errors", ["raise", "yield", "skip"])
    @pytest.mark.parametrize("ordered", [False, True])
    @pytest.mark.parametrize("kind", [asyncio.CancelledError, KeyboardInterrupt, SystemExit])
    def test_being_told_to_end_is_never_collected(self, kind: type[BaseException], errors: Any, ordered: bool) -> None:
        async def end(_item: int) -> None:
            raise kind

        with pytest.raises(kind):
            all_of(end, range(3), limit=2, errors=errors, ordered=ordered)

    @pytest.mark.parametrize("errors", ["raise", "yield", "skip"])
    def test_what_is_no_exception_is_never_collected(self, errors: Any) -> None:
        class OddError(BaseException):
            pass

        async def end(_item: int) -> None:
            raise OddError

        with pytest.raises(OddError):
            all_of(end, range(3), limit=2, errors=errors)

    def test_one_and_what_it_came_through_go_without_the_garbage_collector(self) -> None:
        class Body:
            pass

        bodies: list[weakref.ref[Body]] = []

        async def read(_item: int) -> None:
            body = Body()
            bodies.append(weakref.ref(body))
            await asyncio.sleep(1)
            raise ValueError

        async def main() -> None:
            for options in OPTIONS:
                with suppress(ValueError):
                    await collected(amap(read, [1], limit=1, **options))

        gc.disable()
        try:
            run_on_virtual_clock(main())
            assert [None] * len(OPTIONS) == [body() for body in bodies]
        finally:
            gc.enable()


class TestTheFunction:
    def test_it_may_be_all_that_returns_an_awaitable(self) -> None:
        class Waiting:
            async def __call__(self, seconds: float) -> float:
                return await wait_that_long(seconds)

            async def method(self, seconds: float) -> float:
                return await wait_that_long(seconds)

        async def wait(factor: float, seconds: float) -> float:
            return await wait_that_long(factor * seconds)

        def future(seconds: float) -> "asyncio.Future[float]":
            return asyncio.ensure_future(wait_that_long(seconds))

        for function in (Waiting(), Waiting().method, partial(wait, 1), lambda item: wait_that_long(item), future):  # noqa: PLW0108 - a lambda that returns a coroutine
            assert [1, 2] == all_of(function, [2, 1], limit=2), function

    @pytest.mark.parametrize("errors", ["raise", "yield", "skip"])
    def test_a_sync_one_is_refused_however_errors_are_treated(self, errors: Any) -> None:
        with pytest.raises(TypeError, match=r"the function returned 1, which cannot be awaited: give an `async def`"):
            all_of(lambda item: item, [1, 2], limit=1, errors=errors)

    def test_one_that_takes_something_else_fails_for_its_item(self) -> None:
        async def no_arguments() -> None:
            pass

        function: Any = no_arguments
        with pytest.raises(TypeError, match="takes 0 positional arguments but 1 was given") as raised:
            all_of(function, [7], limit=1)
        assert ["raised for the item 7"] == raised.value.__notes__
        (outcome,) = all_of(function, [7], limit=1, errors="yield")
        assert isinstance(outcome.error, TypeError)

    def test_each_call_has_its_own_copy_of_the_context_in_which_the_block_began(self) -> None:
        variable: ContextVar[str] = ContextVar("variable")
        seen = []

        async def change(item: int) -> None:
            seen.append(variable.get())
            variable.set(f"by item {item}")
            await asyncio.sleep(1)

        async def main() -> str:
            variable.set("at the beginning")
            async with amap(change, range(4), limit=2, buffer=0) as results:
                variable.set("by the loop")
                async for _ in results:
                    pass
            return variable.get()

        assert "by the loop" == run_on_virtual_clock(main())
        assert ["at the beginning"] * 4 == seen

    def test_it_may_use_a_map_itself(self) -> None:
        async def sum_below(item: int) -> float:
            below: list[float] = await collected(amap(wait_that_long, range(item), limit=2))
            return sum(below)

        assert [0, 0, 1, 3] == all_of(sum_below, range(4), limit=3)


class TestTheEnd:
    def test_leaving_the_block_cancels_what_runs_and_waits_until_it_has_ended(self) -> None:
        ended = []

        async def work(item: int) -> int:
            try:
                await asyncio.sleep(item)
            finally:
                await asyncio.sleep(10)
                ended.append(item)
            return item

        async def main() -> list[int]:
            async with amap(work, [0, 1000, 2000], limit=3) as results:
                assert 0 == await anext(results)
            return ended

        assert [0, 1000, 2000] == run_on_virtual_clock(main())

    def test_a_loop_without_a_block_that_is_left_cancels_what_runs(self) -> None:
        ended = []

        async def work(item: int) -> None:
            try:
                await asyncio.sleep(item)
            finally:
                ended.append(item)

        async def main() -> list[int]:
            async for _ in amap(work, [0, 1000, 2000], limit=3):
                break
            await asyncio.sleep(1)
            return ended

        assert [0, 1000, 2000] == run_on_virtual_clock(main())

    @pytest.mark.parametrize("in_block", [False, True])
    def test_a_cancelled_loop_waits_until_everything_has_ended(self, in_block: bool) -> None:
        ended = []

        async def work(item: int) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(10)
                ended.append(item)

        async def consume() -> None:
            results = amap(work, range(2), limit=3)
            if in_block:
                await collected(results)
            else:
                async for _ in results:
                    pass

        async def main() -> tuple[list[int], float]:
            consumer = asyncio.create_task(consume())
            asyncio.get_running_loop().call_later(5, consumer.cancel)
            with pytest.raises(asyncio.CancelledError):
                await consumer
            return ended, now_s()

        assert ([0, 1], 15) == run_on_virtual_clock(main())

    def test_what_a_source_gives_when_it_has_just_let_go_of_the_map_is_cancelled_too(self) -> None:
        held: list[Any] = []

        def source() -> Iterator[int]:
            yield 0
            yield 1
            held.clear()
            yield 1000

        async def main() -> None:
            held.append(amap(wait_that_long, source(), limit=1, buffer=5))
            await anext(held[0])
            await asyncio.sleep(10)
            assert not held

        run_on_virtual_clock(main())

    def test_aclose_drops_what_was_not_collected_and_ends_the_iteration(self) -> None:
        async def main() -> list[float]:
            results = amap(wait_that_long, [0, 1000], limit=2)
            assert 0 == await anext(results)
            await results.aclose()
            await results.aclose()
            return [result async for result in results]

        assert [] == run_on_virtual_clock(main())

    def test_a_task_cannot_wait_for_its_own_end(self) -> None:
        async def main() -> None:
            async def close(_item: int) -> None:
                await results.aclose()

            results = amap(close, [1], limit=1)
            with pytest.raises(RuntimeError, match=r"close it from outside, or call stop\(\)"):
                await collected(results)

        run_on_virtual_clock(main())

    def test_what_was_collected_once_is_not_given_again(self) -> None:
        async def main() -> tuple[list[float], list[float]]:
            results = amap(wait_that_long, [2, 1], limit=2)
            return [result async for result in results], [result async for result in results]

        assert ([1, 2], []) == run_on_virtual_clock(main())

    def test_two_loops_over_one_map_share_its_results(self) -> None:
        async def main() -> list[list[float]]:
            async with amap(wait_that_long, range(6), limit=2) as results:

                async def consume() -> list[float]:
                    return [result async for result in results]

                return list(await asyncio.gather(consume(), consume()))

        first, second = run_on_virtual_clock(main())
        assert [0, 1, 2, 3, 4, 5] == sorted(first + second)
        assert first
        assert second

    def test_without_an_event_loop_it_says_so(self) -> None:
        step = amap(wait_that_long, [1], limit=1).__anext__()
        with pytest.raises(RuntimeError, match="no running event loop"):
            step.send(None)


class TestStop:
    def test_it_starts_nothing_new_and_delivers_what_has_begun(self) -> None:
        async def main() -> tuple[list[Any], list[float]]:
            async with amap(wait_that_long, count(1), limit=3) as results:
                await asyncio.sleep(0)
                return results.stop(), [result async for result in results]

        assert ([], [1, 2, 3]) == run_on_virtual_clock(main())

    def test_before_the_first_step_there_is_nothing_to_deliver(self) -> None:
        async def main() -> tuple[list[Any], list[float]]:
            results = amap(wait_that_long, count(1), limit=3)
            return results.stop(), await collected(results)

        assert ([], []) == run_on_virtual_clock(main())

    def test_it_may_be_called_by_the_function_itself_and_twice(self) -> None:
        async def main() -> list[int]:
            async def stop_at_2(item: int) -> int:
                if item == 2:
                    results.stop()
                    results.stop()
                return item

            results = amap(stop_at_2, count(), limit=1)
            return await collected(results)

        assert [0, 1, 2] == run_on_virtual_clock(main())


class TestStatistics:
    def test_they_tell_how_far_it_is(self) -> None:
        async def main() -> list[TaskStatistics]:
            async with amap(fail_if_odd, [0, 2, 3, 4], limit=2, errors="skip") as results:
                told = [results.statistics()]
                await asyncio.sleep(1)
                told.append(results.statistics())
                await asyncio.sleep(100)
                told.append(results.statistics())
                await anext(results)
                told.append(results.statistics())
            return [*told, results.statistics()]

        def stand(**figures: int) -> TaskStatistics:
            none = dict.fromkeys(TaskStatistics.__slots__, 0)
            return TaskStatistics(**(none | figures))

        assert [
            stand(taken=2, running=2),
            stand(taken=3, running=2, uncollected=1, succeeded=1),
            stand(taken=4, uncollected=3, succeeded=3, failed=1),
            stand(taken=4, uncollected=2, succeeded=3, failed=1),
            stand(taken=4, uncollected=0, succeeded=3, failed=1),
        ] == run_on_virtual_clock(main())

    def test_what_was_cancelled_is_counted_as_that(self) -> None:
        async def main() -> TaskStatistics:
            async with amap(wait_that_long, [0, 10, 20], limit=3) as results:
                await anext(results)
            return results.statistics()

        now = run_on_virtual_clock(main())
        assert (3, 1, 2, 0) == (now.taken, now.succeeded, now.cancelled, now.running)


class TestForEach:
    def test_it_gives_the_figures(self) -> None:
        async def main() -> TaskStatistics:
            return await for_each(fail_if_odd, range(5), limit=2, errors="skip")

        now = run_on_virtual_clock(main())
        assert (5, 3, 2, 0) == (now.taken, now.succeeded, now.failed, now.uncollected)

    def test_an_error_is_raised_when_the_rest_has_ended(self) -> None:
        ended = []

        async def work(item: int) -> None:
            if item:
                raise ValueError
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(item)

        async def main() -> None:
            await for_each(work, range(2), limit=2)

        with pytest.raises(ValueError, match="raised for the item"):
            run_on_virtual_clock(main())
        assert [0] == ended

    def test_cancelling_it_cancels_what_runs_and_waits_for_it(self) -> None:
        ended = []

        async def work(item: int) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(3)
                ended.append(item)

        async def main() -> float:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await for_each(work, count(), limit=2)
            return now_s()

        assert 8 == run_on_virtual_clock(main())
        assert [0, 1] == ended
