"""Several threads iterate over the results of one call, and so do several tasks of a loop."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

import headgate
from support.loops import HELD, Run, until
from support.run import serving, wait_for

THREADS = 4
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "fetch_many": lambda client, source: client.fetch_many(source),
    "ordered": lambda client, source: client.fetch_many(source, ordered=True),
    "batches": lambda client, source: client.fetch_many(source).to_arrow_batches(),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[headgate.Client]:
    with headgate.Client(base_url=server) as client:
        yield client


def rows_of(result: Any) -> list[int]:
    """Returns the positions of the requests whose results are in an outcome or a batch."""
    if isinstance(result, headgate.Succeeded | headgate.Failed):
        return [result.index]
    rows: list[int] = pa.record_batch(result)["row"].to_pylist()
    return rows


def taken_by_each(results: Any, threads: int = THREADS) -> list[list[int] | Exception]:
    """Returns the positions that each thread takes, or the error that it gets."""
    begin = threading.Barrier(threads)

    def take() -> list[int] | Exception:
        rows = list[int]()
        begin.wait(20)
        try:
            for result in results:
                rows += rows_of(result)
        except Exception as error:  # noqa: BLE001 - it is compared
            return error
        return rows

    with ThreadPoolExecutor(threads) as pool:
        return [each.result(60) for each in [pool.submit(take) for _ in range(threads)]]


@pytest.mark.parametrize("count", [0, 1, 3, 3000])
@pytest.mark.parametrize("call", CALLS)
def test_each_result_goes_to_one_thread_and_all_threads_end(client: headgate.Client, call: str, count: int) -> None:
    results = CALLS[call](client, (f"/{n}" for n in range(count)))
    taken = taken_by_each(results)
    rows = [each for each in taken if isinstance(each, list)]
    assert THREADS == len(rows)
    assert list(range(count)) == sorted(chain.from_iterable(rows))
    if call == "ordered":
        assert [sorted(each) for each in rows] == rows
    assert [] == list(results)


def test_tables_are_read_by_one_thread_at_a_time(client: headgate.Client) -> None:
    tables = (pa.table({"url": [f"/{n}"] * 50}) for n in range(40))
    taken = taken_by_each(client.map_batches(tables))
    assert list(range(2000)) == sorted(row for each in taken if isinstance(each, list) for row in each)


@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_the_source_is_raised_in_one_thread_and_ends_the_others(client: headgate.Client, call: str) -> None:
    def broken() -> Iterator[str]:
        yield from (f"/{n}" for n in range(500))
        raise LookupError("there is no more of this file")

    results = CALLS[call](client, broken())
    taken = taken_by_each(results)
    assert ["there is no more of this file"] == [str(each) for each in taken if isinstance(each, Exception)]
    assert [] == list(results)


@pytest.mark.parametrize("call", CALLS)
def test_close_ends_all_threads(client: headgate.Client, call: str) -> None:
    results = CALLS[call](client, [HELD] * 10)
    with ThreadPoolExecutor(THREADS) as pool:
        taking = [pool.submit(lambda: list(results)) for _ in range(THREADS)]
        wait_for(lambda: client.statistics().in_flight == 10)
        results.close()
        assert [[]] * THREADS == [each.result(20) for each in taking]
    wait_for(lambda: client.statistics().in_flight == 0)


@pytest.mark.parametrize("call", CALLS)
def test_close_ends_all_threads_but_the_one_that_reads_the_source_which_closes_it(
    client: headgate.Client, call: str
) -> None:
    is_read, may_continue, closed_in = threading.Event(), threading.Event(), list[int]()

    def blocking() -> Iterator[str]:
        try:
            yield HELD
            is_read.set()
            assert may_continue.wait(20)
            yield HELD
        finally:
            closed_in.append(threading.get_ident())

    results, reader = CALLS[call](client, blocking()), list[int]()

    def take() -> list[Any]:
        reader.append(threading.get_ident())
        return list(results)

    with ThreadPoolExecutor(THREADS + 1) as pool:
        reading = pool.submit(take)
        assert is_read.wait(20)
        others = [pool.submit(lambda: list(results)) for _ in range(THREADS)]
        results.close()
        assert [[]] * THREADS == [each.result(20) for each in others]
        assert not closed_in
        may_continue.set()
        assert [] == reading.result(20)
    assert reader == closed_in


def test_results_come_while_another_thread_waits(client: headgate.Client) -> None:
    with client.fetch_many() as outcomes, ThreadPoolExecutor(THREADS) as pool:
        taking = [pool.submit(next, outcomes) for _ in range(THREADS)]
        for number in range(THREADS):
            outcomes.submit(f"/{number}")
        assert {f"/{n}" for n in range(THREADS)} == {each.result(20).request.url for each in taking}
        outcomes.finish()
        assert [] == list(outcomes)


def test_threads_that_take_outcomes_submit_more_and_never_wait(client: headgate.Client) -> None:
    outcomes, left = client.fetch_many(), threading.Semaphore(0)

    def crawl() -> int:
        taken = 0
        for outcome in outcomes:
            taken += 1
            if outcome.tag < 3:
                for _ in range(20):
                    outcomes.submit(headgate.Request("/1", tag=outcome.tag + 1))
            left.release()
        return taken

    outcomes.submit(headgate.Request("/1", tag=0))
    with ThreadPoolExecutor(THREADS) as pool:
        crawling = [pool.submit(crawl) for _ in range(THREADS)]
        for _ in range(1 + 20 + 20**2 + 20**3):
            assert left.acquire(timeout=60)
        outcomes.finish()
        assert 1 + 20 + 20**2 + 20**3 == sum(each.result(20) for each in crawling)


def test_a_thread_that_took_an_outcome_does_not_wait_for_space(client: headgate.Client) -> None:
    outcomes, filled = client.fetch_many(), threading.Event()
    for _ in range(2):
        outcomes.submit("/1")

    def take_and_fill() -> None:
        next(outcomes)
        for _ in range(12_000):
            outcomes.submit(HELD)
        filled.set()

    with ThreadPoolExecutor(1) as pool:
        # No thread starts requests meanwhile, so none of them leaves the queue.
        pool.submit(take_and_fill).result(20)
        next(outcomes)
        for _ in range(12_000):
            outcomes.submit(HELD)
        assert outcomes.room < 1_000_000 - 20_000
        outcomes.close()


@pytest.mark.parametrize("call", CALLS)
def test_the_source_of_a_call_cannot_take_its_results(client: headgate.Client, call: str) -> None:
    def greedy() -> Iterator[str]:
        yield "/1"
        next(results[0])

    results = [CALLS[call](client, greedy())]
    with pytest.raises(RuntimeError, match="can't take their results"):
        list(results[0])


@pytest.mark.parametrize("call", CALLS)
def test_a_signal_handler_may_close_it(client: headgate.Client, call: str) -> None:
    results = CALLS[call](client, [HELD] * 10)
    before = signal.signal(signal.SIGUSR1, lambda *_: results.close())
    try:
        with ThreadPoolExecutor(THREADS) as pool:
            taking = [pool.submit(lambda: list(results)) for _ in range(THREADS)]
            wait_for(lambda: client.statistics().in_flight == 10)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert [] == list(results)
            assert [[]] * THREADS == [each.result(20) for each in taking]
    finally:
        signal.signal(signal.SIGUSR1, before)


INTERRUPTED = """
import os, signal, sys, threading
import headgate

client = headgate.Client(base_url=sys.argv[1])
outcomes = client.fetch_many(["/delay/3600"] * 10)
batches = outcomes.to_arrow_batches() if sys.argv[2] == "batches" else outcomes
threads = [threading.Thread(target=list, args=(batches,)) for _ in range(4)]
for thread in threads:
    thread.start()

def interrupt():
    while client.statistics().in_flight < 10:
        pass
    os.kill(os.getpid(), signal.SIGINT)

try:
    with batches:
        threading.Thread(target=interrupt).start()
        list(batches)
except KeyboardInterrupt:
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    print("interrupted")
"""


@pytest.mark.parametrize("call", ["fetch_many", "batches"])
def test_ctrl_c_ends_all_threads(server: str, call: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, server, call], capture_output=True, text=True, timeout=60, check=False
    )
    assert "interrupted\n" == done.stdout, done.stderr


def test_progress_is_reported_by_one_thread_at_a_time(client: headgate.Client) -> None:
    busy, seen = threading.Lock(), list[headgate.Snapshot]()

    def note(snapshot: headgate.Snapshot) -> None:
        assert busy.acquire(blocking=False)
        seen.append(snapshot)
        busy.release()

    taken = taken_by_each(client.fetch_many((f"/{n}" for n in range(2000)), progress=note))
    assert 2000 == sum(len(each) for each in taken if isinstance(each, list))
    assert seen[-1].succeeded == 2000


# -- tasks of a loop


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("is_async", [False, True])
def test_each_result_goes_to_one_task_and_all_tasks_end(server: str, run: Run, call: str, *, is_async: bool) -> None:
    async def urls() -> AsyncIterator[str]:
        for number in range(3000):
            yield f"/{number}"

    async def take(results: Any) -> list[int]:
        return [row async for result in results for row in rows_of(result)]

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            results = CALLS[call](client, urls() if is_async else [f"/{n}" for n in range(3000)])
            async with asyncio.timeout(60):
                rows = await asyncio.gather(*(take(results) for _ in range(THREADS)))
            assert list(range(3000)) == sorted(chain.from_iterable(rows))

    run(main())


@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_the_source_is_raised_in_one_task_and_ends_the_others(server: str, run: Run, call: str) -> None:
    def broken() -> Iterator[str]:
        yield from (f"/{n}" for n in range(500))
        raise LookupError("there is no more of this file")

    async def take(results: Any) -> list[int]:
        return [row async for result in results for row in rows_of(result)]

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            results = CALLS[call](client, broken())
            async with asyncio.timeout(60):
                taken = await asyncio.gather(*(take(results) for _ in range(THREADS)), return_exceptions=True)
            assert ["there is no more of this file"] == [str(each) for each in taken if isinstance(each, Exception)]

    run(main())


@pytest.mark.parametrize("call", CALLS)
def test_aclose_ends_all_tasks(server: str, run: Run, call: str) -> None:
    async def take(results: Any) -> list[Any]:
        return [result async for result in results]

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            results = CALLS[call](client, [HELD] * 10)
            tasks = [asyncio.create_task(take(results)) for _ in range(THREADS)]
            await until(lambda: client.statistics().in_flight == 10)
            await results.aclose()
            async with asyncio.timeout(20):
                assert [[]] * THREADS == await asyncio.gather(*tasks)

    run(main())


@pytest.mark.parametrize("call", CALLS)
def test_a_task_of_another_loop_cannot_take_results(server: str, call: str) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            results = CALLS[call](client, ["/1", HELD])
            await anext(results)

            async def take_there() -> None:
                with pytest.raises(RuntimeError, match="belongs to another event loop"):
                    await anext(results)

            await asyncio.to_thread(asyncio.run, take_there())
            await results.aclose()

    asyncio.run(main())
