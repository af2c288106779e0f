"""`headgate.map`: `amap` for code without an event loop. When it is left, nothing of it keeps running."""

import asyncio
import signal
import threading
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from pathlib import Path

import pytest

import headgate
from headgate import StrayCancellation, TaskOutcome
from support.run import printed_by

LONGEST_S = 10
"""How long to wait for another thread before the test fails."""

name: ContextVar[str] = ContextVar("name", default="nobody")


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert [] == threads()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "headgate-map"]


async def square(number: int) -> int:
    await asyncio.sleep(0)
    return number * number


class Stuck:
    """A function whose calls never return, except for the first ones; it counts the calls that were cancelled."""

    def __init__(self, first: int) -> None:
        self._first = first
        self.began = 0
        self.ended = 0

    async def __call__(self, number: int) -> int:
        if number < self._first:
            return number
        self.began += 1
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended += 1
        return number


# -- results


def test_an_async_source_is_read_too() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(5):
            await asyncio.sleep(0)
            yield number

    assert [0, 1, 4, 9, 16] == list(headgate.map(square, numbers(), limit=2, ordered=True))


def test_many_results_come_through() -> None:
    assert list(range(5_000)) == sorted(headgate.map(Stuck(5_000), range(5_000), limit=50))


def test_no_items_are_no_results() -> None:
    assert [] == list(headgate.map(square, [], limit=1))


def test_outcomes_are_yielded_with_errors_yield() -> None:
    async def invert(number: int) -> float:
        return 1 / number

    outcomes: list[TaskOutcome[int, float]] = list(headgate.map(invert, [2, 0], limit=1, errors="yield", ordered=True))
    assert 0.5 == outcomes[0].unwrap()
    assert isinstance(outcomes[1].error, ZeroDivisionError)


def test_calls_run_while_the_caller_works() -> None:
    reached = threading.Event()

    async def reach(number: int) -> int:
        if number == 3:
            reached.set()
        return number

    with headgate.map(reach, range(10), limit=1, buffer=5) as results:
        next(results)
        assert reached.wait(LONGEST_S)


def test_uncollected_results_stop_the_starts() -> None:
    begun = []
    much_later = threading.Event()

    async def begin(number: int) -> int:
        begun.append(number)
        if number == 4:
            for _ in range(100):  # the other slot could process a hundred items meanwhile
                await asyncio.sleep(0)
            much_later.set()
        return number

    with headgate.map(begin, range(1_000), limit=2, buffer=3) as results:
        next(results)
        assert much_later.wait(LONGEST_S)
        assert len(begun) <= 5


# -- its end


def test_the_thread_of_a_map_is_there_from_the_first_result_to_the_last() -> None:
    results = headgate.map(square, range(2), limit=1)
    assert [] == threads()
    next(results)
    assert 1 == len(threads())
    assert 1 == len(list(results))
    assert [] == threads()
    assert [] == list(results)


def test_an_error_is_raised_with_its_item_and_ends_it() -> None:
    async def fail(number: int) -> int:
        raise LookupError(number)

    results = headgate.map(fail, [7], limit=1)
    with pytest.raises(LookupError, match="7") as caught:
        next(results)
    assert ["raised for the item 7"] == caught.value.__notes__
    assert [] == threads()
    assert [] == list(results)


def test_an_error_of_the_source_comes_after_the_results() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise LookupError("no more")

    results = headgate.map(square, numbers(), limit=5)
    assert 1 == next(results)
    with pytest.raises(LookupError, match="no more"):
        next(results)


def test_a_runtime_error_of_a_call_is_that_error() -> None:
    async def fail(_number: int) -> int:
        raise RuntimeError("of the user")

    with pytest.raises(RuntimeError, match="of the user"):
        list(headgate.map(fail, [1], limit=1))


def test_leaving_a_loop_cancels_running_calls_before_the_next_line() -> None:
    stuck = Stuck(first=1)
    for _result in headgate.map(stuck, range(10), limit=3):
        break
    assert [] == threads()
    assert stuck.began == stuck.ended > 0


def test_leaving_the_block_cancels_running_calls() -> None:
    stuck = Stuck(first=1)
    with pytest.raises(ZeroDivisionError), headgate.map(stuck, range(10), limit=3) as results:
        assert 0 == 1 / next(results)
    assert [] == threads()
    assert stuck.began == stuck.ended > 0


def test_a_block_that_takes_no_result_starts_nothing() -> None:
    stuck = Stuck(first=0)
    with headgate.map(stuck, range(10), limit=3):
        pass
    assert 0 == stuck.began


def test_closing_a_generator_over_a_map_cancels_running_calls() -> None:
    stuck = Stuck(first=1)

    def numbers() -> Iterator[int]:
        yield from headgate.map(stuck, range(10), limit=3)

    generator = iter(numbers())
    assert 0 == next(generator)
    del generator
    assert [] == threads()
    assert stuck.began == stuck.ended > 0


def test_ctrl_c_during_a_wait_cancels_running_calls() -> None:
    stuck = Stuck(first=0)
    main = threading.main_thread().ident
    assert main is not None
    # Other libraries (polars) leave a signal handler behind that lets a wait continue.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    async def press(number: int) -> int:
        if number == 1:
            signal.pthread_kill(main, signal.SIGINT)
        return await stuck(number)

    results = headgate.map(press, range(2), limit=2)
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert [] == threads()
    assert 2 == stuck.ended


def test_a_call_that_exits_the_program_does_so() -> None:
    async def leave(number: int) -> int:
        await asyncio.sleep(0)
        if number == 2:
            raise SystemExit(5)
        return number

    for _ in range(30):  # the loop ends during the call, or before it
        with pytest.raises(SystemExit) as caught:
            list(headgate.map(leave, range(10), limit=2))
        assert 5 == caught.value.code


async def cancelled_at_1(number: int) -> int:
    if number == 1:
        raise asyncio.CancelledError
    return number


def test_a_call_that_is_cancelled_has_failed() -> None:
    results = headgate.map(cancelled_at_1, range(5), limit=1)
    assert 0 == next(results)
    with pytest.raises(StrayCancellation, match="raised for the item 1"):
        next(results)
    assert [] == list(results)


def test_closing_twice_is_closing_once() -> None:
    results = headgate.map(square, range(9), limit=1)
    next(results)
    results.close()
    results.close()
    assert [] == list(results)


def test_at_the_end_of_the_program_calls_still_clean_up(tmp_path: Path) -> None:
    program = """
import asyncio
import headgate

async def wait(number):
    if number == 0:
        return number
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up")

results = headgate.map(wait, range(2), limit=2)
print(next(results))
"""
    assert "0\ncleaned up\n" == printed_by(program, tmp_path)


# -- stop and statistics


def test_stop_finishes_what_has_begun_and_starts_nothing_new() -> None:
    with headgate.map(square, range(1_000_000), limit=3, ordered=True) as results:
        assert 0 == next(results)
        results.stop()
        rest = list(results)
        done = results.statistics()
    assert [number * number for number in range(1, len(rest) + 1)] == rest
    assert (len(rest) + 1, 0, 0) == (done.succeeded, done.cancelled, done.running)
    assert done.taken < 100


def test_a_call_may_stop_it() -> None:
    async def stop_at_three(number: int) -> int:
        if number == 3:
            results.stop()
        return number

    results = headgate.map(stop_at_three, range(1_000_000), limit=1)
    assert [0, 1, 2, 3] == list(results)


def test_stopped_before_it_began_it_has_no_results() -> None:
    results = headgate.map(square, range(9), limit=1)
    assert [] == results.stop()
    assert [] == list(results)


def test_after_its_end_there_is_nothing_to_stop_and_statistics_stay() -> None:
    results = headgate.map(square, range(9), limit=2)
    assert 9 == len(list(results))
    assert [] == results.stop()
    assert (9, 9, 0) == (results.statistics().taken, results.statistics().succeeded, results.statistics().uncollected)


# -- where it runs


def test_calls_see_the_variables_of_the_caller_and_keep_their_own() -> None:
    async def greet(word: str) -> str:
        seen = name.get()
        name.set(word)
        await asyncio.sleep(0)
        return f"{seen} {name.get()}"

    token = name.set("caller")
    try:
        assert ["caller a", "caller b", "caller c"] == sorted(headgate.map(greet, ["a", "b", "c"], limit=1))
        assert "caller" == name.get()
    finally:
        name.reset(token)


def test_calls_run_on_a_loop_of_the_given_kind() -> None:
    made = []

    def make() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]

    async def loop_of(_number: int) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert [True] * 3 == [loop is made[0] for loop in headgate.map(loop_of, range(3), limit=1, loop_factory=make)]
    assert 1 == len(made)
    assert made[0].is_closed()


def test_a_loop_that_cannot_be_made_is_an_error_at_the_first_result() -> None:
    def make() -> asyncio.AbstractEventLoop:
        raise OSError("too many open files")

    with pytest.raises(OSError, match="too many open files"):
        next(headgate.map(square, range(3), limit=1, loop_factory=make))


def test_where_a_loop_runs_it_is_refused() -> None:
    async def main() -> None:
        headgate.map(square, [1], limit=1)

    with pytest.raises(RuntimeError, match=r"would block the event loop .* use amap"):
        asyncio.run(main())


def test_two_maps_may_run_at_once() -> None:
    first, second = headgate.map(square, range(3), limit=1), headgate.map(square, range(3), limit=1)
    assert [(0, 0), (1, 1), (4, 4)] == list(zip(first, second, strict=True))


def test_wrong_arguments_are_refused_at_once() -> None:
    with pytest.raises(ValueError, match="limit must be at least 1, not 0"):
        headgate.map(square, [1], limit=0)
    with pytest.raises(TypeError, match="items is a str, which is one value"):
        headgate.map(square, "12", limit=1)  # type: ignore[arg-type]
