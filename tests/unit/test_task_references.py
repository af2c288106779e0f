"""A map that has ended leaves nothing that only the garbage collector could free."""

import asyncio
import gc
import pickle
import traceback
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

import headgate
from headgate import ConcurrencyLimit, Rate, Retry, TaskOutcome, amap, as_completed, for_each, gather
from support.as_completed import one
from support.maps import all_of, collected, from_afar, wait_that_long
from support.virtual_clock import run_on_virtual_clock

OPTIONS: list[dict[str, Any]] = [
    {},
    {"ordered": True},
    {"errors": "yield"},
    {"timeout": 50},
    {"retry": Retry(2, 0)},
    {"limit": ConcurrencyLimit(2)},
    {"rate": Rate(1000)},
    {"key": lambda item: item, "per_key": 1},
]


class Held:
    """A large object."""


@contextmanager
def no_garbage_is_made(*kinds: str) -> Iterator[None]:
    """Fails if something of ours, or of these kinds, was left to the garbage collector."""
    gc.collect()
    gc.freeze()  # the collector skips what earlier tests left behind, which is also much faster
    gc.disable()
    flags = gc.get_debug()
    try:
        yield
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [type(each) for each in gc.garbage]
    finally:
        gc.set_debug(flags)
        gc.garbage.clear()
        gc.unfreeze()
        gc.enable()
    ours = {
        kind.__name__ for kind in found if kind.__module__.partition(".")[0] == "headgate" or kind.__name__ in kinds
    }
    assert set() == ours


async def fail(item: int) -> int:
    await asyncio.sleep(0)
    raise ValueError(item)


def not_async(item: int) -> Coroutine[Any, Any, int]:
    return one(item)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("function", [one, not_async, fail])
@pytest.mark.parametrize("source", [range, from_afar])
def test_a_finished_map_leaves_nothing_to_the_garbage_collector(
    options: dict[str, Any], function: Callable[[int], Coroutine[Any, Any, int]], source: Callable[[int], Any]
) -> None:
    async def main() -> None:
        with suppress(ValueError):
            await collected(amap(function, source(5), **({"limit": 2} | options)))
        with suppress(ValueError):
            assert [_ async for _ in amap(function, source(5), **({"limit": 2} | options))]

    loop = asyncio.new_event_loop()
    try:
        with no_garbage_is_made("ValueError"):
            loop.run_until_complete(main())
    finally:
        loop.close()


async def leave_at_once(results: Any) -> None:
    async with results:
        await anext(results)


async def leave_without_a_block(results: Any) -> None:
    async for _ in results:
        break
    del results
    await asyncio.sleep(1)


async def stop(results: Any) -> None:
    async with results:
        results.stop()
        async for _ in results:
            pass


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("leave", [leave_at_once, leave_without_a_block, stop])
@pytest.mark.parametrize("source", [range, from_afar])
def test_a_map_that_was_left_leaves_nothing_to_the_garbage_collector(
    options: dict[str, Any], leave: Callable[[Any], Coroutine[Any, Any, None]], source: Callable[[int], Any]
) -> None:
    async def main() -> None:
        await leave(amap(wait_that_long, source(9), **({"limit": 2} | options)))

    async def of_futures() -> None:
        if "errors" not in options:
            await leave(as_completed((wait_that_long(n) for n in range(9)), limit=2))

    with no_garbage_is_made():
        run_on_virtual_clock(main())
    if leave is not stop:
        with no_garbage_is_made():
            run_on_virtual_clock(of_futures())


def test_a_finished_sync_map_leaves_nothing_to_the_garbage_collector() -> None:
    def use() -> None:
        assert 5 == len(list(headgate.map(one, range(5), limit=2)))
        with suppress(ValueError):
            list(headgate.map(fail, range(5), limit=2))
        with headgate.map(one, range(5), limit=2) as results:
            next(results)

    use()
    with no_garbage_is_made("ValueError"):
        use()


def test_the_sync_map_keeps_nothing_that_was_taken() -> None:
    async def make(_number: int) -> Held:
        return Held()

    taken: list[weakref.ref[Held]] = []
    gc.disable()
    try:
        for result in headgate.map(make, range(100), limit=50):
            taken.append(weakref.ref(result))
            assert [] == [1 for each in taken[:-1] if each() is not None]
    finally:
        gc.enable()
    assert 100 == len(taken)


def test_results_of_the_sync_map_count_as_uncollected_until_all_of_their_batch_are_taken() -> None:
    with headgate.map(one, range(3), limit=3) as results:
        next(results)
        assert 3 == results.statistics().taken
        assert results.statistics().uncollected > 0
        assert 2 == len(list(results))
        assert 0 == results.statistics().uncollected


@pytest.mark.parametrize("return_exceptions", [False, True])
def test_gathered_results_go_with_their_list(return_exceptions: bool) -> None:
    async def make() -> Held:
        held = Held()
        alive.append(weakref.ref(held))
        return held

    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds)
        raise ValueError

    async def main() -> None:
        failing = asyncio.ensure_future(fail(1))
        with suppress(ValueError):
            results = await gather(make(), make(), wait(1), failing, limit=2, return_exceptions=return_exceptions)
            assert [Held, Held, ValueError, ValueError] == [type(result) for result in results]
            del results
        del failing  # it has the raised error, and so has the outcome
        assert [None, None] == [held() for held in alive]

    alive: list[weakref.ref[Held]] = []
    with no_garbage_is_made("ValueError"):
        run_on_virtual_clock(main())


def outcome_of_a_failure() -> TaskOutcome[int, int]:
    (outcome,) = all_of(fail, [1], limit=1, errors="yield")
    assert isinstance(outcome, TaskOutcome)
    return outcome


def test_an_outcome_that_was_unwrapped_goes_without_the_garbage_collector() -> None:
    class OwnError(Exception):
        pass

    failed: TaskOutcome[int, int] = TaskOutcome(
        index=0, item=1, value=None, error=OwnError(), attempts=1, started_at=None, elapsed_s=0.0
    )
    error = weakref.ref(failed.error) if failed.error else None
    assert error
    gc.disable()
    try:
        for _ in range(3):
            with suppress(OwnError):
                failed.unwrap()
        del failed
        assert None is error()
    finally:
        gc.enable()


def test_an_error_that_is_unwrapped_repeatedly_has_the_same_traceback() -> None:
    outcome = outcome_of_a_failure()
    before = traceback.format_tb(outcome.error.__traceback__) if outcome.error else []
    lengths = set()
    for _ in range(50):
        with pytest.raises(ValueError, match="1") as raised:
            outcome.unwrap()
        lengths.add(len(traceback.extract_tb(raised.value.__traceback__)))
        assert before == traceback.format_tb(raised.value.__traceback__)[2:]
    assert {len(before) + 2} == lengths
    assert isinstance(pickle.loads(pickle.dumps(outcome)).error, ValueError)  # noqa: S301 - our own


def test_an_error_that_came_through_an_outcome_of_another_map_keeps_where_it_was_raised() -> None:
    async def unwrap_another(_item: int) -> int:
        (outcome,) = await collected(amap(fail, [1], limit=1, errors="yield"))
        assert isinstance(outcome, TaskOutcome)
        return int(outcome.unwrap())

    (outcome,) = all_of(unwrap_another, [1], limit=1, errors="yield")
    for _ in range(3):
        with pytest.raises(ValueError, match="1") as raised:
            outcome.unwrap()
    names = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert ["unwrap_another", "fail"] == [name for name in names if name in ("unwrap_another", "fail")]
    assert 2 == names.count("unwrap")


def test_the_error_of_an_async_source_keeps_nothing_of_the_consumer() -> None:
    async def source() -> AsyncIterator[int]:
        yield 1
        raise OSError

    async def collect(form: Callable[..., Any]) -> None:
        held = Held()
        alive.append(weakref.ref(held))
        with suppress(OSError):
            await form()

    async def main() -> None:
        for options in OPTIONS:
            await collect(lambda options=options: collected(amap(one, source(), **({"limit": 2} | options))))
        await collect(lambda: for_each(one, source(), limit=2))

    alive: list[weakref.ref[Held]] = []
    gc.disable()
    try:
        run_on_virtual_clock(main())
        assert [None] * len(alive) == [held() for held in alive]
    finally:
        gc.enable()
