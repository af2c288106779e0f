"""The basic promises hold on a real clock, with the event loop of asyncio and with uvloop."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

import pytest
import uvloop

from headgate import (
    ConcurrencyLimit,
    Rate,
    Retry,
    TooManyFailures,
    amap,
    as_completed,
    for_each,
    gather,
    map as map_all,
)
from support.as_completed import now_s
from support.quiet import Source, Spy

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, T]], T]

LONG_S = 1000.0
SHORT_S = 0.002


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    factory: Callable[[], asyncio.AbstractEventLoop] = request.param
    return factory


@pytest.fixture
def run(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Run[Any]:
    def run_alone(main: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            return runner.run(alone(main))

    return run_alone


async def alone(main: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine; fails if a task is left running or the loop reports a problem."""
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    result = await main
    assert {asyncio.current_task()} == asyncio.all_tasks()
    assert [] == complaints
    return result


async def twice(n: int) -> int:
    await asyncio.sleep(0.001 * (n % 3))
    return 2 * n


async def fail_if_odd(n: int) -> int:
    await asyncio.sleep(0)
    if n % 2:
        raise ZeroDivisionError
    return n


class FailsFirst:
    """Raises at the first attempt of each item."""

    def __init__(self) -> None:
        self.tried = set[int]()

    async def __call__(self, n: int) -> int:
        await asyncio.sleep(0)
        if n not in self.tried:
            self.tried.add(n)
            raise ConnectionError
        return n


# -- as_completed and gather


def test_a_plain_for_gives_results_in_order_of_completion(run: Run[Any]) -> None:
    async def main() -> list[int]:
        ended = [asyncio.Event() for _ in range(4)]

        async def end_after(n: int, other: int) -> int:
            await asyncio.sleep(0.001)
            await ended[other].wait()
            ended[n].set()
            return n

        ended[3].set()
        aws = (end_after(n, other) for n, other in enumerate([2, 3, 1]))
        return [await result for result in as_completed(aws, limit=3)]

    assert [1, 2, 0] == run(main())


def test_async_for_keeps_the_limit_and_loses_nothing(run: Run[Any]) -> None:
    async def main() -> list[int]:
        aws = (spy.sleep(n, 0.001 * (n % 3)) for n in range(50))
        return sorted([future.result() async for future in as_completed(aws, limit=7)])

    spy = Spy()
    assert list(range(50)) == run(main())
    assert 7 == spy.peak


def test_leaving_the_block_cancels_and_waits(run: Run[Any]) -> None:
    async def main() -> None:
        source = Source(spy)
        async with as_completed(source, limit=3) as futures:
            await anext(futures)
        assert (0, 1) == (spy.running, source.closed)

    spy = Spy(default_s=SHORT_S)
    run(main())


def test_the_timeout_cancels_and_waits(run: Run[Any]) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async for _ in as_completed(
                [spy.sleep(n, LONG_S, last_words_s=SHORT_S) for n in range(9)], limit=3, timeout=0.01
            ):
                pass
        assert [0, 1, 2] == sorted(spy.cancelled)

    spy = Spy()
    run(main())


def test_gather_keeps_the_order_and_cancels_the_rest_at_an_error(run: Run[Any]) -> None:
    async def main() -> None:
        assert [0, 2, 4, 6] == await gather(*(twice(n) for n in range(4)), limit=2)
        with pytest.raises(ZeroDivisionError):
            await gather(spy.sleep(0, LONG_S), fail_if_odd(1), spy.sleep(1), limit=2)

    spy = Spy()
    run(main())
    assert ([0], [0]) == (spy.started, spy.cancelled)


# -- amap


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"buffer": 0},
        {"ordered": True},
        {"ordered": True, "window": 3},
        {"errors": "skip"},
        {"timeout": 60},
        {"retry": Retry(2, 0.001)},
        {"rate": Rate(100_000, burst=10)},
        {"rate": Rate(100_000, burst=10), "cost": lambda n: 1 + n % 2},
        {"key": lambda n: n % 3, "per_key": 1},
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_amap_gives_each_result_once_with_each_option(run: Run[Any], options: dict[str, Any]) -> None:
    async def main() -> list[int]:
        async with amap(twice, range(30), limit=4, **options) as results:
            return [result async for result in results]

    came = run(main())
    assert [2 * n for n in range(30)] == (came if "ordered" in options else sorted(came))


def test_amap_takes_an_async_source(run: Run[Any]) -> None:
    async def source() -> AsyncIterator[int]:
        for n in range(10):
            await asyncio.sleep(0)
            yield n

    async def main() -> list[int]:
        async with amap(twice, source(), limit=4) as results:
            return [result async for result in results]

    assert [2 * n for n in range(10)] == sorted(run(main()))


def test_amap_shares_a_limit(run: Run[Any]) -> None:
    async def main() -> int:
        limit = ConcurrencyLimit(3)
        await asyncio.gather(*(for_each(twice, range(20), limit=limit) for _ in range(3)))
        assert 0 == limit.in_use
        return limit.statistics().most_in_use

    assert 3 == run(main())


def test_amap_yields_outcomes(run: Run[Any]) -> None:
    async def main() -> None:
        async with amap(fail_if_odd, range(10), limit=4, errors="yield") as results:
            outcomes = {outcome.index: outcome async for outcome in results}
        assert list(range(10)) == sorted(outcomes)
        assert all((outcome.error is not None) == bool(outcome.item % 2) for outcome in outcomes.values())

    run(main())


def test_amap_stops_at_too_many_errors(run: Run[Any]) -> None:
    async def main() -> None:
        with pytest.raises(TooManyFailures):
            await for_each(fail_if_odd, range(10), limit=4, errors="skip", max_failures=2)

    run(main())


def test_amap_retries(run: Run[Any]) -> None:
    async def main() -> int:
        statistics = await for_each(FailsFirst(), range(10), limit=4, retry=Retry(2, 0.001))
        assert (10, 0) == (statistics.succeeded, statistics.failed)
        return statistics.retried

    assert 10 == run(main())


def test_amap_bounds_the_time_of_an_attempt(run: Run[Any]) -> None:
    async def main() -> int:
        statistics = await for_each(spy.sleep, range(3), limit=2, errors="skip", timeout=0.005)
        return statistics.failed

    spy = Spy(default_s=LONG_S)
    assert 3 == run(main())
    assert [0, 1, 2] == sorted(spy.cancelled)


def test_amap_cancels_and_waits_at_an_error(run: Run[Any]) -> None:
    async def function(n: int) -> int:
        return await (fail_if_odd(n) if n == 5 else spy.sleep(n, LONG_S if n > 2 else 0.0, last_words_s=SHORT_S))

    async def main() -> None:
        with pytest.raises(ZeroDivisionError) as raised:
            await for_each(function, range(100), limit=4)
        assert ["raised for the item 5"] == raised.value.__notes__
        assert 0 == spy.running

    spy = Spy()
    run(main())


def test_amap_stops_after_stop(run: Run[Any]) -> None:
    async def main() -> None:
        async with amap(spy.sleep, range(1000), limit=4) as results:
            came = [await anext(results)]
            results.stop()
            came += [result async for result in results]
        assert spy.made == sorted(came)
        assert 1000 > len(came)

    spy = Spy(default_s=SHORT_S)
    run(main())


# -- map


def test_map_runs_on_a_loop_of_the_kind_that_it_is_given(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def module_of_loop(_: int) -> str:
        await asyncio.sleep(0)
        return type(asyncio.get_running_loop()).__module__.partition(".")[0]

    name = "uvloop" if new_loop is uvloop.new_event_loop else "asyncio"
    assert [name] * 5 == list(map_all(module_of_loop, range(5), limit=2, loop_factory=new_loop))


def test_map_gives_each_result_once_and_can_be_left(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    assert [2 * n for n in range(30)] == sorted(map_all(twice, range(30), limit=4, loop_factory=new_loop))
    spy = Spy()
    with map_all(lambda n: spy.sleep(n, LONG_S if n else 0.0), range(100), limit=4, loop_factory=new_loop) as results:
        assert 0 == next(results)
    assert (0, [0]) == (spy.running, spy.returned)


# -- Rate and ConcurrencyLimit


def test_a_rate_paces(run: Run[Any]) -> None:
    async def main() -> float:
        rate = Rate(1000, burst=1)
        began_s = now_s()  # the time of the event loop, which reads its clock only at times
        await asyncio.gather(*(rate.acquire() for _ in range(8)))
        took_s = now_s() - began_s
        assert (8, 0) == (rate.statistics().granted, rate.statistics().waiting)
        return took_s

    assert 0.007 <= run(main()) + 1e-6


def test_a_rate_forgets_cancelled_tasks(run: Run[Any]) -> None:
    async def main() -> None:
        rate = Rate(500, burst=1)
        await rate.acquire()
        impatient = asyncio.create_task(rate.acquire())
        patient = asyncio.create_task(rate.acquire())
        await asyncio.sleep(0)
        impatient.cancel()
        await patient
        assert (2, 0) == (rate.statistics().granted, rate.statistics().waiting)

    run(main())


def test_a_limit_is_kept_and_first_come_is_first_served(run: Run[Any]) -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(2)
        order: list[int] = []

        async def work(n: int) -> None:
            async with limit:
                order.append(n)
                await asyncio.sleep(0.001)

        await asyncio.gather(*(work(n) for n in range(10)))
        assert list(range(10)) == order
        assert (2, 0) == (limit.statistics().most_in_use, limit.in_use)

    run(main())


def test_a_limit_can_be_resized_while_tasks_wait(run: Run[Any]) -> None:
    async def main() -> None:
        limit = ConcurrencyLimit(1)
        await limit.acquire()
        waiting = [asyncio.create_task(limit.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        limit.resize(3)
        await asyncio.gather(*waiting[:2])
        assert not waiting[2].done()
        limit.release()
        await waiting[2]

    run(main())
