import asyncio
from typing import Any

import pytest

from headgate import gather
from support.as_completed import Later, now_s, one
from support.quiet import Spy, fail_quietly, run_quietly


async def fail_after(seconds: float, error: BaseException) -> None:
    await asyncio.sleep(seconds)
    raise error


@pytest.mark.parametrize("limit", [1, 2, 3, 10, 1000])
def test_results_come_in_the_order_of_the_arguments(limit: int) -> None:
    spy = Spy()
    assert list(range(10)) == run_quietly(gather(*(spy.sleep(n, 10 - n) for n in range(10)), limit=limit))
    assert min(limit, 10) == spy.peak


def test_of_nothing_comes_an_empty_list() -> None:
    assert [] == run_quietly(gather(limit=1))


async def test_futures_tasks_coroutines_and_other_awaitables_may_be_mixed() -> None:
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    future.set_result("future")
    assert ["later", "task", "coroutine", "future"] == await gather(
        Later("later"), asyncio.create_task(one("task")), one("coroutine"), future, limit=2
    )


async def test_a_future_that_is_given_twice_gives_its_result_twice(spy: Spy) -> None:
    task = asyncio.create_task(spy.sleep("given"))
    assert ["given", 1, "given"] == await gather(task, one(1), task, limit=3)


@pytest.mark.parametrize(
    "error", [ZeroDivisionError("mine"), TimeoutError("mine"), ExceptionGroup("mine", [ValueError()])]
)
async def test_the_first_error_cancels_the_rest_waits_for_it_and_is_raised(spy: Spy, error: Exception) -> None:
    coroutines = [spy.sleep(0, 1), fail_after(2, error), spy.sleep(1, 10, last_words_s=5)]
    with pytest.raises(type(error)) as raised:
        await gather(*coroutines, *(spy.sleep(n, 10, last_words_s=5) for n in range(2, 9)), limit=3)
    assert raised.value is error
    assert (7, 0) == (now_s(), spy.running)
    assert ([0], [1, 2]) == (spy.returned, sorted(spy.cancelled))


async def test_of_two_errors_the_first_in_time_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        await gather(fail_after(2, ValueError()), fail_after(1, ZeroDivisionError()), limit=2)


async def test_of_two_errors_at_once_neither_is_complained_about() -> None:
    with pytest.raises(ZeroDivisionError):
        await gather(*(fail_after(0, ZeroDivisionError()) for _ in range(5)), limit=3)


async def test_errors_are_among_the_results_with_return_exceptions(spy: Spy) -> None:
    errors = [ZeroDivisionError(), ValueError()]
    coroutines = [one(0), fail_after(2, errors[0]), one(2), fail_after(1, errors[1]), spy.sleep(4)]
    results = await gather(*coroutines, limit=2, return_exceptions=True)
    assert [0, errors[0], 2, errors[1], 4] == results
    assert not any(hasattr(error, "__notes__") for error in errors)


async def test_a_cancelled_argument_is_raised_as_asyncio_does_it(spy: Spy) -> None:
    task = asyncio.create_task(spy.sleep("given", 10))
    asyncio.get_running_loop().call_later(1, task.cancel)
    with pytest.raises(asyncio.CancelledError):
        await gather(task, spy.sleep("other", 10), limit=2)
    assert (1, 0) == (now_s(), spy.running)


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(1)


async def test_a_cancelled_argument_is_among_the_results_with_return_exceptions(spy: Spy) -> None:
    task = asyncio.create_task(spy.sleep("given", 10))
    asyncio.get_running_loop().call_later(1, task.cancel)
    raising = fail_after(1, asyncio.CancelledError())
    results = await gather(task, one(1), raising, cancel_itself(), one(4), limit=2, return_exceptions=True)
    cancelled = asyncio.CancelledError
    assert [cancelled, 1, cancelled, cancelled, 4] == [
        type(result) if isinstance(result, BaseException) else result for result in results
    ]


@pytest.mark.parametrize("return_exceptions", [False, True])
async def test_cancelling_it_cancels_what_runs_waits_for_it_and_closes_the_rest(
    spy: Spy, return_exceptions: bool
) -> None:
    coroutines = [spy.sleep(n, 10, last_words_s=5) for n in range(6)]
    whole = asyncio.create_task(gather(*coroutines, limit=2, return_exceptions=return_exceptions))
    await asyncio.sleep(1)
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    assert ([0, 1], 6) == (sorted(spy.cancelled), now_s())
    assert 2 == len(spy.started)


async def test_cancelling_it_before_its_first_step_closes_nothing_that_it_never_had(spy: Spy) -> None:
    coroutine = spy.sleep(1)
    whole = asyncio.create_task(gather(coroutine, limit=2))
    whole.cancel()
    with pytest.raises(asyncio.CancelledError):
        await whole
    coroutine.close()  # the caller still owns the arguments of a coroutine that never ran


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("return_exceptions", [False, True])
def test_an_interrupt_is_never_collected(fatal: type[BaseException], return_exceptions: bool) -> None:
    async def main() -> None:
        rest = [spy.sleep(n, 10) for n in range(3)]
        await gather(fail_after(1, fatal()), *rest, limit=2, return_exceptions=return_exceptions)

    spy = Spy()
    fail_quietly(main(), fatal)
    assert ([0], [0]) == (spy.started, spy.cancelled)


@pytest.mark.parametrize(
    ("limit", "error", "message"),
    [
        (0, ValueError, "limit must be at least 1, not 0"),
        (1.5, TypeError, "limit must be an int"),
        (None, TypeError, "limit must be an int"),
    ],
)
async def test_a_wrong_limit_is_refused_and_the_coroutines_are_closed(
    spy: Spy, limit: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await gather(spy.sleep(1), spy.sleep(2), limit=limit)
    assert ([1, 2], []) == (spy.made, spy.started)


@pytest.mark.parametrize("wrong", [1, None, "text", [], one])
async def test_a_value_that_cannot_be_awaited_is_refused_before_anything_starts(spy: Spy, wrong: Any) -> None:
    with pytest.raises(TypeError, match="gather takes awaitables, and was given "):
        await gather(spy.sleep(1), wrong, spy.sleep(2), limit=1)
    assert [] == spy.started


async def test_a_list_of_coroutines_is_refused_with_the_right_call() -> None:
    with pytest.raises(TypeError, match=r"give them one by one, gather\(\*aws\)"):
        await gather([1, 2], limit=1)  # type: ignore[call-overload]
