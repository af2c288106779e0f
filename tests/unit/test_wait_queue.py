"""The wait queue, as maps of tasks use it: waiters that call back."""

from collections.abc import Callable

import pytest

from headgate import ConcurrencyLimit
from support.rates import turns_of_the_loop
from support.virtual_clock import run_on_virtual_clock


def test_a_callback_is_called_in_its_turn_and_never_within_when_granted() -> None:
    async def main() -> None:
        limit, called = ConcurrencyLimit(2), list[tuple[str, ValueError | None, int]]()

        def note(name: str) -> Callable[[ValueError | None], None]:
            return lambda error: called.append((name, error, limit.in_use))

        limit.when_granted(2, note("free"))
        assert [] == called
        limit.when_granted(1, note("light"))
        limit.when_granted(2, note("heavy"))
        await turns_of_the_loop()
        assert [("free", None, 2)] == called
        limit.release(2)
        assert [("free", None, 2), ("light", None, 1)] == called
        limit.release(1)
        assert ("heavy", None, 2) == called[-1]

    run_on_virtual_clock(main())


def test_a_turn_that_is_cancelled_is_not_called_and_lets_the_next_one_go() -> None:
    async def main() -> None:
        limit, called = ConcurrencyLimit(3), list[str]()
        limit.try_acquire(2)
        heavy = limit.when_granted(3, lambda _: called.append("heavy"))
        light = limit.when_granted(1, lambda _: called.append("light"))
        heavy.cancel()
        heavy.cancel()
        await turns_of_the_loop()
        assert (["light"], 3) == (called, limit.in_use)
        light.cancel()
        assert (True, False, 3) == (light.granted, heavy.granted, limit.in_use)

    run_on_virtual_clock(main())


def test_a_turn_that_can_never_come_is_refused_at_once_or_when_that_becomes_true() -> None:
    async def main() -> None:
        limit, called = ConcurrencyLimit(4), list[ValueError | None]()
        with pytest.raises(ValueError, match="could never be allowed"):
            limit.when_granted(5, called.append)
        limit.try_acquire(4)
        limit.when_granted(4, called.append)
        limit.resize(3)
        assert (["ValueError"], 0) == ([type(error).__name__ for error in called], limit.statistics().waiting)

    run_on_virtual_clock(main())


def test_tasks_that_are_refused_together_may_cancel_each_other() -> None:
    async def main() -> None:
        limit, called = ConcurrencyLimit(4), list[str]()
        limit.try_acquire(4)

        def give_up(_: ValueError | None) -> None:
            called.append("first")
            second.cancel()

        limit.when_granted(4, give_up)
        second = limit.when_granted(4, lambda _: called.append("second"))
        limit.resize(3)
        assert (["first"], 0) == (called, limit.statistics().waiting)

    run_on_virtual_clock(main())


def test_tasks_that_acquire_in_a_loop_do_not_block_the_event_loop() -> None:
    async def main() -> None:
        limit, calls = ConcurrencyLimit(1), 0

        def again(error: ValueError | None) -> None:
            nonlocal calls
            assert error is None
            calls += 1
            limit.when_granted(1, again)
            limit.release()

        limit.when_granted(1, again)
        await turns_of_the_loop(50)
        assert 40 < calls <= 52

    run_on_virtual_clock(main())


def test_an_error_in_a_callback_does_not_stop_the_queue() -> None:
    async def main() -> None:
        limit, called = ConcurrencyLimit(2), list[str]()
        limit.try_acquire(2)

        def fail(_: ValueError | None) -> None:
            raise KeyError

        limit.when_granted(1, fail)
        limit.when_granted(1, lambda _: called.append("next"))
        with pytest.raises(KeyError):
            limit.release(2)
        await turns_of_the_loop()
        assert ["next"] == called

    run_on_virtual_clock(main())


def test_those_whose_event_loop_was_closed_are_not_waited_for() -> None:
    limit, called = ConcurrencyLimit(1), list[object]()
    limit.try_acquire()

    async def leave_one_behind() -> None:
        limit.when_granted(1, called.append)

    run_on_virtual_clock(leave_one_behind())
    limit.release()
    assert (True, []) == (limit.try_acquire(), called)
