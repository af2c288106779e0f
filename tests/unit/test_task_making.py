"""Tasks are made as the event loop makes them, also if a tool has replaced that; statistics meanwhile."""

import asyncio
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from headgate import ConcurrencyLimit, TaskResults, TaskStatistics, amap, as_completed, for_each
from support.as_completed import one
from support.eager import either_factory
from support.maps import collected
from support.virtual_clock import VirtualClockLoop, run_on_virtual_clock

OPTIONS: list[dict[str, Any]] = [{}, {"timeout": 50}, {"ordered": True}]
shared = ConcurrencyLimit(1)


@contextmanager
def create_task_wrapped(owner: Any) -> Iterator[list[str]]:
    """Wraps a function as tools that trace tasks do: the wrapper has the name and module of the function."""
    made: list[str] = []
    original = owner.create_task
    own = vars(owner).get("create_task")

    @functools.wraps(original)
    def create_task(*args: Any, **options: Any) -> Any:
        made.append("made")
        return original(*args, **options)

    owner.create_task = create_task
    try:
        yield made
    finally:
        if own is None:
            del owner.create_task
        else:
            owner.create_task = own


@pytest.mark.parametrize("owner", [asyncio.BaseEventLoop, asyncio.SelectorEventLoop, VirtualClockLoop])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_create_task_that_was_wrapped_on_a_class_is_called(owner: Any, options: dict[str, Any]) -> None:
    async def main() -> int:
        before = len(made)
        await for_each(one, range(5), limit=2, **{name: value for name, value in options.items() if name != "ordered"})
        return len(made) - before

    with create_task_wrapped(owner) as made:
        assert 5 == run_on_virtual_clock(main())


async def test_a_create_task_that_was_wrapped_on_the_loop_is_called() -> None:
    with create_task_wrapped(asyncio.get_running_loop()) as made:
        assert 5 == len([_ async for _ in as_completed([one(n) for n in range(5)], limit=2)])
        assert 5 == len(made)


async def test_a_create_task_that_passes_itself_off_as_a_method_is_called() -> None:
    class Proxy:
        """Returns every attribute of the wrapped object, as wrapt does."""

        def __init__(self, wrapped: Any) -> None:
            self._wrapped = wrapped

        def __getattr__(self, name: str) -> Any:
            return getattr(self._wrapped, name)

        def __call__(self, *args: Any, **options: Any) -> Any:
            made.append("made")
            return self._wrapped(*args, **options)

    made: list[str] = []
    loop: Any = asyncio.get_running_loop()
    loop.create_task = Proxy(loop.create_task)
    assert 5 == len(await collected(amap(one, range(5), limit=2)))
    assert 5 == len(made)


@either_factory
@pytest.mark.parametrize("options", OPTIONS)
async def test_an_eager_call_is_running_in_the_figures_that_it_sees(
    factory: Callable[..., Any], options: dict[str, Any]
) -> None:
    seen: list[TaskStatistics] = []

    async def look(item: int) -> int:
        seen.append(results.statistics())
        await asyncio.sleep(item)
        return item

    asyncio.get_running_loop().set_task_factory(factory)
    results: TaskResults[int] = amap(look, [9, 9, 0], limit=2, **options)
    await collected(results)
    assert [(1, 1, 0), (2, 2, 0), (3, 2, 1)] == [(now.taken, now.running, now.succeeded) for now in seen]


@either_factory
async def test_an_eager_call_may_stop_its_own_map(factory: Callable[..., Any]) -> None:
    async def stop(item: int) -> int:
        assert [] == results.stop()
        return item

    asyncio.get_running_loop().set_task_factory(factory)
    results: TaskResults[int] = amap(stop, range(9), limit=2)
    assert [0] == await collected(results)


class NoMoreTasks:
    """A task factory that fails after some tasks."""

    def __init__(self, good: int) -> None:
        self._good = good

    def __call__(self, loop: Any, coroutine: Any, **options: Any) -> Any:
        self._good -= 1
        if self._good < 0:
            raise OSError("no more tasks")
        return asyncio.Task(coroutine, loop=loop, **options)


@pytest.mark.parametrize("options", [*OPTIONS, {"limit": shared}])
async def test_an_item_for_which_no_task_can_be_made_is_none_that_has_succeeded_and_keeps_no_slot(
    options: dict[str, Any],
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(NoMoreTasks(2))
    results = amap(asyncio.sleep, [1, 1, 1, 1], **({"limit": 1} | options))
    with pytest.raises(OSError, match="no more tasks"):
        await collected(results)
    loop.set_task_factory(None)
    now = results.statistics()
    assert (3, 2, 0, 0, 1) == (now.taken, now.succeeded, now.failed, now.cancelled, now.unstarted)
    assert 0 == shared.in_use
