"""Errors in `amap` are raised, yielded or skipped."""

import asyncio
import weakref
from typing import Any

import pytest

from headgate import Retry, TaskOutcome, TooManyFailures, amap
from support.as_completed import now_s
from support.maps import all_of, fail_if_odd

OPTIONS: tuple[dict[str, Any], ...] = ({}, {"ordered": True}, {"timeout": 5}, {"errors": "yield"})
"""Options that change which code of a map runs."""


@pytest.mark.parametrize(
    ("items", "ordered", "expected"), [([0, 2, 3, 4, 6], False, [0, 2, 3]), ([4, 1, 2, 8], True, [4, 4])]
)
async def test_an_error_is_raised_after_the_results_that_come_before_it(
    items: list[int], ordered: bool, expected: list[float]
) -> None:
    seen: list[float] = []
    with pytest.raises(ValueError, match="raised for the item"):  # noqa: PT012 - the results before it come from the same block
        async for result in amap(fail_if_odd, items, limit=5, ordered=ordered):
            seen.append(result)  # noqa: PERF401 - the list is used when the loop ends with an error
    assert expected == [*seen, now_s()]


class Unspeakable:
    def __repr__(self) -> str:
        raise OSError


@pytest.mark.parametrize(
    ("item", "shown"),
    [("x", "'x'"), ("x" * 10_000, "'xxx"), (Unspeakable(), "<Unspeakable"), (10**5000, "<int>")],
    ids=["short", "long", "can't be represented", "has too many digits"],
)
def test_the_beginning_of_its_item_is_a_note_of_an_error(item: object, shown: str) -> None:
    async def refuse(_item: object) -> None:
        raise OSError

    with pytest.raises(OSError, match="raised for the item") as raised:
        all_of(refuse, [item], limit=1)
    (note,) = raised.value.__notes__
    assert note.startswith(f"raised for the item {shown}")
    assert len(note) < 300


def test_yielded_outcomes_have_all_facts_of_each_item() -> None:
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


async def test_skipped_errors_are_only_counted() -> None:
    async with amap(fail_if_odd, range(5), limit=2, errors="skip") as results:
        seen = [result async for result in results]
        assert ([0, 2, 4], 3, 2) == (seen, results.statistics().succeeded, results.statistics().failed)


@pytest.mark.parametrize("errors", ["yield", "skip"])
@pytest.mark.parametrize(("max_failures", "begun_at_least"), [(0, 1), (2, 3)])
def test_more_failed_items_than_allowed_end_the_map(errors: Any, max_failures: int, begun_at_least: int) -> None:
    begun = []

    async def work(item: int) -> None:
        begun.append(item)
        raise ValueError(item)

    with pytest.raises(TooManyFailures, match=f"{begun_at_least} items failed") as raised:
        all_of(work, range(100), limit=1, errors=errors, max_failures=max_failures)
    assert isinstance(raised.value.__cause__, ValueError)
    assert list(range(begun_at_least)) == begun


class OddError(BaseException):
    """It is not an `Exception`."""


@pytest.mark.parametrize("errors", ["raise", "yield", "skip"])
@pytest.mark.parametrize("options", [{}, {"ordered": True}, {"retry": Retry(3, 0)}])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, OddError])
def test_an_interrupt_or_exit_is_never_collected_nor_retried(
    kind: type[BaseException], errors: Any, options: dict[str, Any]
) -> None:
    async def end(item: int) -> None:
        called.append(item)
        raise kind

    called: list[int] = []
    with pytest.raises(kind):
        all_of(end, range(3), limit=1, errors=errors, **options)
    assert [0] == called
