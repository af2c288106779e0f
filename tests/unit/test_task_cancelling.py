"""Running calls are cancelled once; a cancellation that is not ours is a failure and does not end the map."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from itertools import count
from typing import Any

import pytest

import headgate
from headgate import ConcurrencyLimit, Retry, StrayCancellation, amap, as_completed, for_each, gather
from support.as_completed import now_s
from support.maps import all_of, collected
from support.quiet import Spy, fail_quietly
from support.virtual_clock import run_on_virtual_clock

OPTIONS: list[dict[str, Any]] = [
    {},
    {"ordered": True},
    {"timeout": 5000},
    {"limit": ConcurrencyLimit(9)},
    {"key": lambda item: item, "per_key": 1},
]


class LevelScope:
    """Cancels a task in every turn of the event loop until it has ended, as the cancel scopes of anyio do."""

    def __init__(self) -> None:
        self.turns = 0

    def cancel(self, task: "asyncio.Task[Any]") -> None:
        if not task.done():
            self.turns += 1
            task.cancel()
            task.get_loop().call_soon(self.cancel, task)


class CleanUp:
    """A call that runs forever, and takes some turns of the event loop to clean up when it is cancelled."""

    def __init__(self, turns: int = 5) -> None:
        self._turns = turns
        self.begun = 0
        self.finished = 0

    async def __call__(self, _item: int = 0) -> None:
        self.begun += 1
        try:
            await asyncio.sleep(1000)
        finally:
            for _ in range(self._turns):
                await asyncio.sleep(0)
            self.finished += 1

    async def iterate(self) -> AsyncIterator[int]:
        for item in range(5):
            yield item
        await self()


async def by_amap(call: CleanUp) -> None:
    async with amap(call, range(5), limit=9) as results:
        await anext(results)


async def by_amap_without_a_block(call: CleanUp) -> None:
    async for _ in amap(call, range(5), limit=9):
        pass


async def by_amap_with_a_time_limit(call: CleanUp) -> None:
    await collected(amap(call, range(5), limit=9, timeout=5000))


async def by_for_each(call: CleanUp) -> None:
    await for_each(call, range(5), limit=9)


async def by_for_each_from_an_async_source(call: CleanUp) -> None:
    await for_each(call, call.iterate(), limit=9)


async def by_gather(call: CleanUp) -> None:
    await gather(*(call() for _ in range(5)), limit=9)


async def by_gather_that_returns_exceptions(call: CleanUp) -> None:
    await gather(*(call() for _ in range(5)), limit=9, return_exceptions=True)


async def by_as_completed(call: CleanUp) -> None:
    async with as_completed((call() for _ in range(5)), limit=9) as futures:
        await anext(futures)


async def by_plain_as_completed(call: CleanUp) -> None:
    for awaitable in as_completed([call() for _ in range(5)], limit=9):
        await awaitable


Way = Callable[[CleanUp], Coroutine[Any, Any, None]]
every_way = pytest.mark.parametrize(
    "way",
    [
        by_amap,
        by_amap_without_a_block,
        by_amap_with_a_time_limit,
        by_for_each,
        by_for_each_from_an_async_source,
        by_gather,
        by_gather_that_returns_exceptions,
        by_as_completed,
        by_plain_as_completed,
    ],
)


@every_way
async def test_calls_clean_up_also_in_a_scope_that_cancels_in_each_turn(way: Way) -> None:
    call, scope = CleanUp(), LevelScope()
    task = asyncio.create_task(way(call))
    await asyncio.sleep(1)
    scope.cancel(task)
    with pytest.raises(asyncio.CancelledError):
        await task
    assert call.begun == call.finished >= 5
    assert scope.turns < 20


async def under_a_timeout(waiting: Coroutine[Any, Any, None], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        await waiting


@pytest.mark.parametrize("within", [under_a_timeout, asyncio.wait_for])
@every_way
async def test_a_timeout_around_it_is_a_timeout(way: Way, within: Callable[..., Coroutine[Any, Any, None]]) -> None:
    call = CleanUp()
    with pytest.raises(TimeoutError):
        await within(way(call), 1)
    assert call.begun == call.finished >= 5
    task = asyncio.current_task()
    assert task is not None
    assert 0 == task.cancelling()


async def test_a_late_call_that_cleans_up_is_cancelled_once_at_the_end_of_the_block() -> None:
    cancelled = []

    async def work(_item: int) -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            for _ in range(3):
                try:
                    await asyncio.sleep(100)
                except asyncio.CancelledError:
                    cancelled.append(now_s())

    async with amap(work, [1], limit=1, timeout=5):
        await asyncio.sleep(10)
    assert [10] == cancelled


def test_calls_after_an_error_in_order_are_cancelled_once() -> None:
    finished = []

    async def work(item: int) -> None:
        if item == 0:
            await asyncio.sleep(5)
        if item == 1:
            raise ValueError
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(10)
            finished.append((item, now_s()))

    with pytest.raises(ValueError, match="raised for the item 1"):
        all_of(work, range(4), limit=4, ordered=True, timeout=2000)
    assert [(0, 1015), (2, 10), (3, 10)] == sorted(finished)


# -- a cancellation that is not ours


async def raise_it() -> None:
    raise asyncio.CancelledError


async def await_something_cancelled() -> None:
    other: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    other.cancel()
    await other


async def await_a_cancelled_task() -> None:
    other = asyncio.create_task(asyncio.sleep(10))
    asyncio.get_running_loop().call_soon(other.cancel)
    await other


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(10)


Stray = Callable[[], Awaitable[None]]
every_stray = pytest.mark.parametrize(
    "stray", [raise_it, await_something_cancelled, await_a_cancelled_task, cancel_itself]
)


def stray_at_5(stray: Stray) -> Callable[[int], Coroutine[Any, Any, int]]:
    async def work(item: int) -> int:
        await asyncio.sleep(0)
        if item == 5:
            await stray()
        return item

    return work


@every_stray
@pytest.mark.parametrize("options", OPTIONS)
def test_a_call_that_is_cancelled_by_something_else_has_failed(stray: Stray, options: dict[str, Any]) -> None:
    with pytest.raises(StrayCancellation, match="the call was cancelled, and the map was not") as raised:
        all_of(stray_at_5(stray), range(99), **({"limit": 3} | options))
    assert ["raised for the item 5"] == raised.value.__notes__
    assert isinstance(raised.value.__cause__, asyncio.CancelledError)


@every_stray
@pytest.mark.parametrize("options", OPTIONS)
def test_a_call_that_other_code_cancels_is_skipped_and_the_rest_continues(
    stray: Stray, options: dict[str, Any]
) -> None:
    results = all_of(stray_at_5(stray), range(99), **({"limit": 3, "errors": "skip"} | options))
    assert [item for item in range(99) if item != 5] == sorted(results)


@every_stray
def test_a_call_that_other_code_cancels_is_retried(stray: Stray) -> None:
    with pytest.raises(StrayCancellation) as raised:
        all_of(stray_at_5(stray), range(9), limit=3, retry=Retry(3, 0))
    assert ["attempt 3 of 3", "raised for the item 5"] == raised.value.__notes__


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
async def test_a_source_that_is_cancelled_by_something_else_has_failed(
    options: dict[str, Any], *, is_async: bool
) -> None:
    def numbers() -> Iterator[int]:
        yield 0
        raise asyncio.CancelledError

    async def numbers_async() -> AsyncIterator[int]:
        yield 0
        await await_something_cancelled()

    seen = []
    source = numbers_async() if is_async else numbers()
    with pytest.raises(StrayCancellation, match="the source was cancelled, and the map was not"):  # noqa: PT012 - the results before it come from the same block
        async for result in amap(lambda _: asyncio.sleep(5, 7), source, **({"limit": 9} | options)):
            seen.append(result)  # noqa: PERF401 - as above
    assert ([7], 5) == (seen, now_s())


@pytest.mark.parametrize("limit", [1, 2, 5])
@pytest.mark.parametrize("errors", ["raise", "skip", "yield"])
@pytest.mark.parametrize("options", [{}, {"timeout": 5000}, {"retry": Retry()}])
def test_a_program_that_ends_starts_nothing_more(limit: int, errors: Any, options: dict[str, Any]) -> None:
    async def work(item: int) -> None:
        begun.append(item)
        await asyncio.sleep(1000)

    async def main() -> None:
        results = amap(work, count(), limit=limit, errors=errors, **options)
        kept.append(results)
        waiting = asyncio.ensure_future(anext(results))
        await asyncio.sleep(1)
        kept.append(waiting)
        raise ZeroDivisionError  # and asyncio cancels what runs

    begun: list[int] = []
    kept: list[Any] = []
    fail_quietly(main(), ZeroDivisionError)
    assert limit == len(begun)
    kept.clear()


@pytest.mark.parametrize("options", [{}, {"timeout": 5000}, {"retry": Retry(attempts=3, backoff=0)}])
def test_a_program_that_ends_starts_nothing_more_whatever_calls_make_of_it(options: dict[str, Any]) -> None:
    async def work(item: int) -> None:
        begun.append(item)
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError as cancelled:
            raise ConnectionError from cancelled

    async def main() -> None:
        results = amap(work, count(), limit=3, errors="skip", **options)
        kept.append(results)
        kept.append(asyncio.ensure_future(anext(results)))
        await asyncio.sleep(1)
        raise ZeroDivisionError  # and asyncio cancels what runs, and warns about its errors

    begun: list[int] = []
    kept: list[Any] = []
    with pytest.raises(ZeroDivisionError):
        run_on_virtual_clock(main())
    assert [0, 1, 2] == begun


async def test_calls_that_are_cancelled_one_by_one_cost_no_look_at_all_tasks_each(
    spy: Spy, monkeypatch: pytest.MonkeyPatch
) -> None:
    def all_tasks(loop: Any = None) -> Any:
        looks.append(loop)
        return every_task(loop)

    every_task, looks = asyncio.all_tasks, list[Any]()
    monkeypatch.setattr(asyncio, "all_tasks", all_tasks)
    results = amap(lambda item: spy.sleep(item, item * 1000), range(50), limit=50, errors="skip")
    assert 0 == await asyncio.create_task(results.__anext__())  # the task that began the iteration has ended
    for task in every_task() - {asyncio.current_task()}:
        task.cancel()
    assert [] == [result async for result in results]
    assert 49 == results.statistics().failed
    assert 1 == len([loop for loop in looks if loop is not None])


@pytest.mark.parametrize("options", OPTIONS)
async def test_an_error_is_not_lost_if_the_wait_for_running_calls_is_cancelled(options: dict[str, Any]) -> None:
    async def fail_or_clean_up(item: int) -> None:
        if item == 0:
            raise ValueError
        try:
            await asyncio.sleep(1000)
        finally:
            await asyncio.sleep(10)

    with pytest.raises(TimeoutError) as raised:
        async with asyncio.timeout(5):
            await collected(amap(fail_or_clean_up, range(9), **({"limit": 9} | options)))
    assert raised.value.__cause__ is not None
    assert isinstance(raised.value.__cause__.__context__, ValueError)
    assert 10 == now_s()


def test_a_program_that_ends_without_a_wait_starts_nothing_more() -> None:
    async def main() -> None:
        kept.append(results := amap(lambda item: spy.sleep(item, item * 1000), count(), limit=1, errors="skip"))
        await anext(results)
        await asyncio.sleep(1)
        raise ZeroDivisionError

    spy, kept = Spy(), list[Any]()
    fail_quietly(main(), ZeroDivisionError)
    assert [0, 1] == spy.started
    kept.clear()


def test_a_stray_cancellation_is_raised_by_the_sync_map_too() -> None:
    with pytest.raises(StrayCancellation):
        list(headgate.map(stray_at_5(cancel_itself), range(99), limit=3))
    assert 98 == len(list(headgate.map(stray_at_5(cancel_itself), range(99), limit=3, errors="skip")))
