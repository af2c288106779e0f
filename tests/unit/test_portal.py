"""Calls from threads into a loop of asyncio or uvloop: their results, refused calls, and closing."""

import asyncio
import contextvars
import gc
import os
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, wait
from datetime import timedelta
from typing import Any

import pytest

import headgate

NUMBER: contextvars.ContextVar[int] = contextvars.ContextVar("NUMBER", default=0)
LONG_S = 1000.0
THREADS = 64


@pytest.fixture(params=["asyncio", "uvloop"])
def new_loop(request: pytest.FixtureRequest) -> Callable[[], asyncio.AbstractEventLoop]:
    factory: Callable[[], asyncio.AbstractEventLoop] = (
        asyncio.new_event_loop if request.param == "asyncio" else pytest.importorskip("uvloop").new_event_loop
    )
    return factory


@pytest.fixture
def portal(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> Iterator[headgate.Portal]:
    with headgate.Portal(loop_factory=new_loop) as made:
        yield made


async def twice(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise LookupError("not here")


class Stuck:
    """Calls that wait until they are cancelled, with a count."""

    def __init__(self) -> None:
        self.begun = threading.Semaphore(0)
        self.cancelled = threading.Semaphore(0)

    async def __call__(self) -> None:
        self.begun.release()
        try:
            await asyncio.sleep(LONG_S)
        except asyncio.CancelledError:
            self.cancelled.release()
            raise


def in_threads(number: int, function: Callable[[], object]) -> list[threading.Thread]:
    threads = [threading.Thread(target=function) for _ in range(number)]
    for thread in threads:
        thread.start()
    return threads


def error_of(function: Callable[..., object], *args: object) -> BaseException:
    with pytest.raises(BaseException) as caught:  # noqa: PT011 - the test is about each of them
        function(*args)
    return caught.value


# -- results


def test_coroutines_plain_functions_and_awaitables_return_their_results(portal: headgate.Portal) -> None:
    assert 4 == portal.call(twice, 2)
    assert "ab" == portal.call("a".__add__, "b")

    def future() -> asyncio.Future[int]:
        made: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        made.set_result(3)
        return made

    assert 3 == portal.call(future)


def test_keywords_are_all_of_the_function(portal: headgate.Portal) -> None:
    assert {"function": 1, "timeout": 2, "self": 3} == portal.call(dict, function=1, timeout=2, self=3)


def test_an_error_arrives_with_the_traceback_of_where_it_was_raised(portal: headgate.Portal) -> None:
    error = error_of(portal.call, fail)
    assert "not here" in str(error)
    assert "fail" == traceback.extract_tb(error.__traceback__)[-1].name


def test_an_error_is_no_cycle(portal: headgate.Portal) -> None:
    class Own(Exception):  # noqa: N818 - no other name is clearer
        pass

    def raise_own() -> None:
        raise Own

    async def raise_later() -> None:
        await asyncio.sleep(0)
        raise Own

    gc.disable()
    try:
        for function in (raise_own, raise_later):
            try:
                portal.call(function)
            except Own as error:
                gone = weakref.ref(error)
            portal.call(int)  # the loop has turned since
            assert gone() is None
    finally:
        gc.enable()


def test_exits_end_the_calling_thread_and_the_loop_continues(portal: headgate.Portal) -> None:
    async def leave(error: BaseException) -> None:
        raise error

    assert isinstance(error_of(portal.call, leave, SystemExit(3)), SystemExit)
    assert isinstance(error_of(portal.call, leave, KeyboardInterrupt()), KeyboardInterrupt)
    assert 2 == portal.call(twice, 1)


def test_the_callers_context_is_seen_and_not_changed(portal: headgate.Portal) -> None:
    async def look() -> int:
        await asyncio.sleep(0)
        seen = NUMBER.get()
        NUMBER.set(7)
        return seen

    NUMBER.set(5)
    assert [5, 5] == [portal.call(look), portal.call(NUMBER.get)]


def test_each_call_has_a_task_of_its_own_with_timeouts(portal: headgate.Portal) -> None:
    async def task() -> asyncio.Task[Any] | None:
        async with asyncio.timeout(LONG_S):
            await asyncio.sleep(0)
            return asyncio.current_task()

    first, second = portal.call(task), portal.call(task)
    assert first is not None
    assert first is not second


def test_a_task_that_was_cancelled_in_the_loop_is_a_cancelled_error_of_threads(portal: headgate.Portal) -> None:
    async def cancel_myself() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(LONG_S)

    error = error_of(portal.call, cancel_myself)
    assert isinstance(error, CancelledError)
    assert isinstance(error.__cause__, asyncio.CancelledError)


# -- many threads


def test_each_of_many_threads_gets_its_own_results(portal: headgate.Portal) -> None:
    wrong: list[int] = []
    done = threading.Semaphore(0)

    def work() -> None:
        for number in range(200):
            given = portal.call(twice, number) if number % 2 else portal.call(int.__add__, number, number)
            if given != 2 * number:
                wrong.append(number)
        done.release()

    for thread in in_threads(THREADS, work):
        thread.join()
    assert [] == wrong


def test_calls_of_a_burst_ring_once(portal: headgate.Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    rung: list[int] = []
    ring = os.eventfd_write

    def ring_and_note(fd: int, number: int) -> None:
        rung.append(number)
        ring(fd, number)

    go, blocked = threading.Event(), threading.Event()

    def block() -> None:
        blocked.set()
        go.wait()

    blocker = portal.start(block)
    blocked.wait()
    monkeypatch.setattr(os, "eventfd_write", ring_and_note)
    later = [portal.start(twice, number) for number in range(50)]
    assert len(rung) <= 1
    go.set()
    blocker.wait()
    assert [2 * number for number in range(50)] == [call.wait() for call in later]


def test_no_thread_hangs_when_another_does_not_wake_the_next(
    portal: headgate.Portal, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = portal._queue  # noqa: SLF001 - there is no public way to delay one thread
    main = threading.get_ident()
    honest = queue.wake_next

    def lazy() -> None:
        if threading.get_ident() == main or threading.current_thread().name == "headgate-portal":
            honest()

    monkeypatch.setattr(queue, "wake_next", lazy)
    for thread in in_threads(16, lambda: [portal.call(twice, number) for number in range(5)]):
        thread.join()


# -- starting a call without waiting


def test_several_callers_can_wait_for_a_started_call_repeatedly(portal: headgate.Portal) -> None:
    started = portal.start(twice, 4)
    found: list[int] = []
    for thread in in_threads(8, lambda: found.append(started.wait())):
        thread.join()
    assert [8] * 8 == found
    assert 8 == started.wait(timeout=0)
    assert started.is_done
    assert "<PortalCall: done>" == repr(started)


def test_a_started_call_can_be_cancelled_before_and_after_its_first_step(portal: headgate.Portal) -> None:
    stuck = Stuck()
    running = portal.start(stuck)
    stuck.begun.acquire()
    for started in (running, portal.start(stuck)):
        started.cancel()
        with pytest.raises(CancelledError):
            started.wait()
        started.cancel()


def test_a_started_call_can_be_had_as_a_future(portal: headgate.Portal) -> None:
    futures = [portal.start(twice, number).future() for number in range(3)]
    done, _ = wait(futures)
    assert {0, 2, 4} == {future.result() for future in done}
    failed = portal.start(fail)
    error_of(failed.wait)
    assert isinstance(failed.future().exception(), LookupError)


def test_waiting_ends_after_its_timeout_and_the_call_continues(portal: headgate.Portal) -> None:
    go = threading.Event()

    async def wait_for_go() -> str:
        return "gone" if await asyncio.to_thread(go.wait) else ""

    started = portal.start(wait_for_go)
    with pytest.raises(TimeoutError, match="hasn't ended after 0 s"):
        started.wait(0)
    go.set()
    assert "gone" == started.wait()


def test_starting_waits_for_a_free_slot() -> None:
    stuck = Stuck()
    with headgate.Portal(max_started=2) as portal:
        running = [portal.start(stuck), portal.start(stuck)]
        third: list[headgate.PortalCall[int]] = []
        (thread,) = in_threads(1, lambda: third.append(portal.start(twice, 1)))
        stuck.begun.acquire()
        stuck.begun.acquire()
        assert [] == third
        running[0].cancel()
        thread.join()
        assert 2 == third[0].wait()
        running[1].cancel()


# -- timeouts


def test_a_call_that_takes_too_long_is_cancelled(portal: headgate.Portal) -> None:
    stuck = Stuck()
    with pytest.raises(TimeoutError, match=r"hasn't ended after 0\.01 s: it is cancelled"):
        portal.call_within(0.01, stuck)
    if stuck.begun.acquire(blocking=False):
        stuck.cancelled.acquire()
    assert 4 == portal.call_within(LONG_S, twice, 2)
    assert 4 == portal.call_within(float("inf"), twice, 2)


def test_a_timeout_may_be_a_timedelta(portal: headgate.Portal) -> None:
    with pytest.raises(TimeoutError, match=r"hasn't ended after 0\.01 s: it is cancelled"):
        portal.call_within(timedelta(milliseconds=10), Stuck())
    assert 4 == portal.start(twice, 2).wait(timedelta(seconds=LONG_S))
    call = portal.start(Stuck())
    with pytest.raises(TimeoutError, match=r"hasn't ended after 0 s"):
        call.wait(timedelta())
    call.cancel()


@pytest.mark.parametrize("wrong", [-1, "1", None, float("nan")])
def test_a_time_that_is_none_is_refused(portal: headgate.Portal, wrong: Any) -> None:
    assert isinstance(error_of(portal.call_within, wrong, int), TypeError | ValueError)


# -- a loop that is already running


async def test_threads_call_into_a_running_loop() -> None:
    async with headgate.Portal.of_running_loop() as portal:
        with pytest.raises(RuntimeError, match="the loop of this very thread"):
            portal.call(int)
        with pytest.raises(RuntimeError, match="the loop of this very thread"):
            portal.start(int)
        with pytest.raises(RuntimeError, match="the loop of this very thread"):
            portal.close()


def test_a_running_loop_serves_threads(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    async def main() -> list[int]:
        async with headgate.Portal.of_running_loop() as portal:
            return await asyncio.gather(*(asyncio.to_thread(portal.call, twice, number) for number in range(20)))

    with asyncio.Runner(loop_factory=new_loop) as runner:
        assert [2 * number for number in range(20)] == runner.run(main())


def test_a_loop_of_another_thread_can_be_given_and_closed_from_here() -> None:
    with headgate.Portal() as outer:
        with headgate.Portal(loop=outer.call(asyncio.get_running_loop)) as portal:
            assert 6 == portal.call(twice, 3)
        with pytest.raises(RuntimeError, match="the portal is closed"):
            portal.call(int)
        assert 6 == outer.call(twice, 3)


def test_a_waiting_thread_gets_an_error_when_the_loop_has_ended(
    new_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    found: list[BaseException] = []
    stuck = Stuck()

    async def main() -> list[threading.Thread]:
        portal = headgate.Portal.of_running_loop()
        threads = in_threads(4, lambda: found.append(error_of(portal.call, stuck)))
        for _ in range(4):
            await asyncio.to_thread(stuck.begun.acquire)
        return threads

    with asyncio.Runner(loop_factory=new_loop) as runner:
        threads = runner.run(main())
    for thread in threads:
        thread.join()
    assert [CancelledError] * 4 == [type(error) for error in found]


def test_a_waiting_thread_notices_that_the_loop_was_closed() -> None:
    loop = asyncio.new_event_loop()
    portal = headgate.Portal(loop=loop)
    found: list[BaseException] = []
    sent = threading.Event()

    def work() -> None:
        sent.set()
        found.append(error_of(portal.call, int))

    threads = in_threads(3, work)
    sent.wait()
    loop.close()
    for thread in threads:
        thread.join()
    assert {CancelledError, RuntimeError} >= {type(error) for error in found}
    assert isinstance(error_of(portal.call, int), RuntimeError)


# -- closing


def test_leaving_the_block_waits_for_started_calls() -> None:
    with headgate.Portal() as portal:
        started = [portal.start(twice, number) for number in range(100)]
    assert [2 * number for number in range(100)] == [call.wait() for call in started]


def test_an_error_that_leaves_the_block_cancels_started_calls() -> None:
    stuck = Stuck()
    portal = headgate.Portal()
    started = portal.start(stuck)
    stuck.begun.acquire()

    def leave() -> None:
        with portal:
            raise LookupError

    assert isinstance(error_of(leave), LookupError)
    assert isinstance(error_of(started.wait), CancelledError)
    assert stuck.cancelled.acquire(blocking=False)


def test_closing_ends_every_wait_and_refuses_what_comes(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    stuck = Stuck()
    found: list[BaseException] = []
    portal = headgate.Portal(loop_factory=new_loop)
    threads = in_threads(THREADS, lambda: found.append(error_of(portal.call, stuck)))
    for _ in range(THREADS // 2):  # the other threads may be at any point
        stuck.begun.acquire()
    portal.close()
    portal.close()
    for thread in threads:
        thread.join()
    assert THREADS == len(found)
    assert {CancelledError, RuntimeError} >= {type(error) for error in found}
    for refused in (portal.call, portal.start):
        assert "the portal is closed" == str(error_of(refused, int))
    assert "<Portal: the portal is closed>" == repr(portal)


def test_a_loop_that_cannot_be_made_is_an_error_at_once() -> None:
    def none() -> asyncio.AbstractEventLoop:
        raise OSError("no more files")

    with pytest.raises(OSError, match="no more files"):
        headgate.Portal(loop_factory=none)


def test_arguments_are_checked() -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    assert isinstance(error_of(lambda: headgate.Portal(loop=loop)), RuntimeError)
    assert isinstance(error_of(lambda: headgate.Portal(max_started=0)), ValueError)
    assert isinstance(error_of(lambda: headgate.Portal(loop=loop, loop_factory=asyncio.new_event_loop)), TypeError)
    assert isinstance(error_of(headgate.Portal.of_running_loop), RuntimeError)
    wrong: Any = 3
    assert isinstance(error_of(lambda: headgate.Portal(loop_factory=wrong)), TypeError)


def test_nothing_is_left_of_many_calls(portal: headgate.Portal) -> None:
    def work() -> None:
        for number in range(300):
            portal.call(twice, number)

    def objects() -> int:
        for thread in in_threads(4, work):
            thread.join()
        portal.call(twice, 1)
        gc.collect()
        return len(gc.get_objects())

    before = min(objects(), objects())
    assert min(objects(), objects()) - before < 200
