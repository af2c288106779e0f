"""How a rate uses the timers of an event loop, and waiters that are called back."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, strategies as st

from headgate import Rate
from support.rates import Spenders, never_more_than, now_s, turns_of_the_loop
from support.virtual_clock import VirtualClockLoop, run_on_virtual_clock


class SpiedLoop(VirtualClockLoop):
    """Records its timers."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[asyncio.TimerHandle] = []

    def call_at(  # type: ignore[override] # it passes on what it is given
        self, when: float, callback: Any, *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = super().call_at(self.when(when), callback, *args, context=context)
        self.timers.append(timer)
        return timer

    def when(self, when: float) -> float:
        return when

    def timers_set(self) -> int:
        return sum(not timer.cancelled() and timer.when() > self.time() for timer in self.timers)


class CoarseLoop(SpiedLoop):
    """Its timers come late, as those of epoll do."""

    def when(self, when: float) -> float:
        return math.ceil(when * 1000) / 1000


class RoundingLoop(SpiedLoop):
    """Its timers come late or early, as those of uvloop do."""

    def when(self, when: float) -> float:
        return self.time() + round((when - self.time()) * 1000) / 1000


def run_on(loop: type[SpiedLoop], main: Callable[[SpiedLoop], Any]) -> None:
    with asyncio.Runner(loop_factory=loop) as runner:
        made = runner.get_loop()
        assert isinstance(made, SpiedLoop)
        runner.run(main(made))


def test_a_thousand_waiting_tasks_need_one_timer() -> None:
    async def main(loop: SpiedLoop) -> None:
        spenders = Spenders(Rate(100))
        for _ in range(1001):
            spenders.come()
        await turns_of_the_loop()
        assert (1, 1) == (len(loop.timers), loop.timers_set())
        for task in spenders.tasks[1:500]:
            task.cancel()
        await turns_of_the_loop()
        assert 1 == loop.timers_set()
        for task in spenders.tasks:
            task.cancel()
        await spenders.leave()
        assert 0 == loop.timers_set()

    run_on(SpiedLoop, main)


@pytest.mark.parametrize("loop", [CoarseLoop, RoundingLoop])
def test_coarse_timers_keep_the_rate_of_tasks_that_wait_together(loop: type[SpiedLoop]) -> None:
    async def main(made: SpiedLoop) -> None:
        spenders = Spenders(Rate(5000))
        for _ in range(1001):
            spenders.come()
        await spenders.leave()
        assert 0.2 <= now_s() <= 0.2015
        assert never_more_than(spenders.granted, burst=1, per_s=5000, late_s=0.010)
        assert len(made.timers) <= 400

    run_on(loop, main)


@pytest.mark.parametrize("loop", [CoarseLoop, RoundingLoop])
def test_coarse_timers_keep_the_rate_of_one_task_that_acquires_in_a_loop(loop: type[SpiedLoop]) -> None:
    async def main(_: SpiedLoop) -> None:
        rate = Rate(3000)
        for _index in range(601):
            async with rate:
                pass
        assert 0.2 <= now_s() <= 0.2015

    run_on(loop, main)


@pytest.mark.parametrize("loop", [SpiedLoop, CoarseLoop, RoundingLoop])
def test_no_task_is_served_too_early_and_no_timer_spins(loop: type[SpiedLoop]) -> None:
    async def main(made: SpiedLoop) -> None:
        spenders = Spenders(Rate(700))
        for _ in range(101):
            spenders.come()
        await spenders.leave()
        late_s = [at_s - index / 700 for index, (at_s, _) in enumerate(spenders.granted)]
        assert -1e-9 < min(late_s)
        assert max(late_s) < 0.002
        assert len(made.timers) <= 200

    run_on(loop, main)


@given(st.floats(0, 1e6), st.floats(1e-9, 1e3), st.floats(0.01, 1e3), st.floats(0, 1))
def test_one_timer_is_enough_however_floats_are_rounded(
    begins_s: float, interval_s: float, burst: float, share: float
) -> None:
    async def main(loop: SpiedLoop) -> None:
        loop.pass_time(begins_s)
        rate = Rate(1, per=interval_s, burst=burst)
        await rate.acquire(burst)
        await rate.acquire(share * burst)
        # A sum of floats may miss the time by a little once, but not repeatedly.
        assert len(loop.timers) <= 4

    run_on(SpiedLoop, main)


def test_a_late_timer_is_made_good_by_so_much_and_no_more() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockLoop)
        spenders = Spenders(Rate(1000))
        for _ in range(200):
            spenders.come()
        await asyncio.sleep(0.0105)
        before = len(spenders.granted)
        loop.pass_time(0.1)  # a callback that takes long
        await turns_of_the_loop()
        assert (11, 11) == (before, len(spenders.granted) - before)
        await spenders.leave()
        assert never_more_than(spenders.granted, burst=1, per_s=1000, late_s=0.010)

    run_on_virtual_clock(main())


def test_lateness_is_forgotten_when_those_it_concerned_have_gone_on() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualClockLoop)
        rate = Rate(100)
        spenders = Spenders(rate)
        for _ in range(2):
            spenders.come()
        await asyncio.sleep(0.005)
        loop.pass_time(0.02)
        await spenders.leave()
        await asyncio.sleep(1)
        assert [True, False] == [rate.try_acquire(), rate.try_acquire()]

    run_on_virtual_clock(main())


# Waiters that are called back, as maps of tasks use them.


def test_callbacks_are_called_in_their_turn_and_never_within_when_granted() -> None:
    async def main() -> None:
        rate, called = Rate(1, burst=2), list[tuple[str, ValueError | None, float]]()

        def note(name: str) -> Callable[[ValueError | None], None]:
            return lambda error: called.append((name, error, now_s()))

        rate.when_granted(2, note("first"))
        heavy = rate.when_granted(2, note("heavy"))
        rate.when_granted(1, note("light"))
        assert [] == called
        heavy.cancel()
        await asyncio.sleep(9)
        assert [("first", None, 0), ("light", None, 1)] == called
        with pytest.raises(ValueError, match="raise burst"):
            rate.when_granted(3, note("refused"))

    run_on_virtual_clock(main())


def test_a_callback_that_acquires_once_more_keeps_the_rate_on_coarse_timers() -> None:
    async def main(loop: SpiedLoop) -> None:
        rate, left, done = Rate(5000), 1001, loop.create_future()

        def start(error: ValueError | None) -> None:
            nonlocal left
            assert error is None
            left -= 1
            while left and rate.try_acquire():
                left -= 1
            if left:
                rate.when_granted(1, start)
            else:
                done.set_result(now_s())

        rate.when_granted(1, start)
        assert 0.2 <= await done <= 0.2015

    run_on(CoarseLoop, main)
