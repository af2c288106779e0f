"""What becomes of an error in `amap`: raised, yielded or skipped."""

import asyncio
import gc
import weakref
from contextlib import suppress
from typing import Any

import pytest

from headgate import TaskOutcome, TooManyErrors, amap
from support.faces import now_s
from support.maps import all_of, collected, fail_if_odd
from support.virtual_clock import run_on_virtual_clock

OPTIONS: tuple[dict[str, Any], ...] = ({}, {"ordered": True}, {"timeout_s": 5}, {"errors": "yield"})
"""Some that make a map go other ways."""


async def fail(item: object) -> object:
    raise ValueError(item)


async def test_an_error_is_raised_after_the_results_that_come_before_it() -> None:
    seen: list[float] = []
    with pytest.raises(ValueError, match="3"):  # noqa: PT012 - and what came before it
        async for result in amap(fail_if_odd, [0, 2, 3, 4, 6], limit=5):
            seen.append(result)  # noqa: PERF401 - it is wanted when the loop is left by an error
    assert [0, 2, 3] == [*seen, now_s()]


async def test_in_order_an_error_waits_for_the_results_of_the_items_before_it() -> None:
    seen: list[float] = []
    with pytest.raises(ValueError, match="1"):  # noqa: PT012 - as above
        async for result in amap(fail_if_odd, [4, 1, 2, 8], limit=5, ordered=True):
            seen.append(result)  # noqa: PERF401 - as above
    assert [4, 4] == [*seen, now_s()]


def test_an_error_cancels_the_rest_and_waits_for_it() -> None:
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


def test_the_item_is_a_note_of_its_error() -> None:
    with pytest.raises(ValueError, match="x") as raised:
        all_of(fail, ["x"], limit=1)
    assert ["raised for the item 'x'"] == raised.value.__notes__


def test_the_note_of_a_long_item_is_short() -> None:
    with pytest.raises(ValueError, match="x") as raised:
        all_of(fail, ["x" * 10_000], limit=1)
    assert len(raised.value.__notes__[0]) < 300


def test_an_item_that_cannot_be_represented_is_named_by_its_type() -> None:
    class Unspeakable:
        def __repr__(self) -> str:
            raise OSError

    async def fail(_item: object) -> None:
        raise ValueError

    with pytest.raises(ValueError, match="raised for the item") as raised:
        all_of(fail, [Unspeakable()], limit=1)
    assert "Unspeakable" in raised.value.__notes__[0]


def test_an_error_is_raised_also_when_its_item_has_too_many_digits_to_be_shown() -> None:
    async def refuse(_item: int) -> None:
        raise OSError

    with pytest.raises(OSError, match="raised for the item") as raised:
        all_of(refuse, [10**5000], limit=1)
    assert len(raised.value.__notes__[0]) < 300


def test_yielded_outcomes_tell_all_of_each_item() -> None:
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


def test_an_outcome_unwraps_to_its_value_or_raises_its_error() -> None:
    outcomes: list[TaskOutcome[int, int]] = all_of(fail_if_odd, [2, 3], limit=1, errors="yield")
    assert 2 == outcomes[0].unwrap()
    with pytest.raises(ValueError, match="3"):
        outcomes[1].unwrap()


def test_a_yielded_error_keeps_no_local_variable_alive() -> None:
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


async def test_a_yielded_error_does_not_end_who_handed_it_over_and_goes_on() -> None:
    async def connect(connection: "asyncio.Future[None]") -> str:
        try:
            raise OSError  # noqa: TRY301 - as a call in its place would
        except OSError as error:
            connection.set_exception(error)
            await asyncio.sleep(10)
            return "went on"

    connection = asyncio.get_running_loop().create_future()
    connecting = asyncio.create_task(connect(connection))

    async def use(_item: int) -> None:
        await connection

    (outcome,) = await collected(amap(use, [1], limit=1, errors="yield"))
    assert isinstance(outcome.error, OSError)
    assert "went on" == await connecting


async def test_skipped_errors_are_only_counted() -> None:
    async with amap(fail_if_odd, range(5), limit=2, errors="skip") as results:
        seen = [result async for result in results]
        assert ([0, 2, 4], 3, 2) == (seen, results.statistics().succeeded, results.statistics().failed)


@pytest.mark.parametrize("errors", ["yield", "skip"])
@pytest.mark.parametrize(("max_errors", "begun_at_least"), [(0, 1), (2, 3)])
def test_more_failed_items_than_allowed_end_the_map(errors: Any, max_errors: int, begun_at_least: int) -> None:
    begun = []

    async def work(item: int) -> None:
        begun.append(item)
        raise ValueError(item)

    with pytest.raises(TooManyErrors, match=f"{begun_at_least} items failed") as raised:
        all_of(work, range(100), limit=1, errors=errors, max_errors=max_errors)
    assert isinstance(raised.value.__cause__, ValueError)
    assert list(range(begun_at_least)) == begun


@pytest.mark.parametrize("errors", ["yield", "skip"])
def test_as_many_failed_items_as_allowed_do_not_end_the_map(errors: Any) -> None:
    results = all_of(fail_if_odd, [0, 1, 2, 3, 4], limit=1, errors=errors, max_errors=2)
    assert (5 if errors == "yield" else 3) == len(results)


@pytest.mark.parametrize("errors", ["raise", "yield", "skip"])
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_being_told_to_end_is_never_collected(kind: type[BaseException], errors: Any, ordered: bool) -> None:
    async def end(_item: int) -> None:
        raise kind

    with pytest.raises(kind):
        all_of(end, range(3), limit=2, errors=errors, ordered=ordered)


@pytest.mark.parametrize("errors", ["raise", "yield", "skip"])
def test_what_is_no_exception_is_never_collected(errors: Any) -> None:
    class OddError(BaseException):
        pass

    async def end(_item: int) -> None:
        raise OddError

    with pytest.raises(OddError):
        all_of(end, range(3), limit=2, errors=errors)


def test_an_error_and_what_it_came_through_go_without_the_garbage_collector() -> None:
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
