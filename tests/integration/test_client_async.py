"""The client for event loops: `headgate.AsyncClient`."""

import asyncio
import gc
import threading
import weakref
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headgate
from support.loops import HELD, Run, until
from support.run import printed_by, serving


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


def test_each_of_many_tasks_of_a_loop_gets_its_own_response(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            bodies = await asyncio.gather(*(client.post("/echo", content=str(each)) for each in range(1000)))
            assert [str(each) for each in range(1000)] == [body.json()["body"] for body in bodies]
            assert 302 == (await client.get("/redirect/1", redirects="none")).status_code

    run(main())


@pytest.mark.parametrize("method", ["get", "post", "put", "patch", "delete"])
def test_each_method_sends_its_own_name(server: str, method: str) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            assert method.upper() == (await getattr(client, method)("/echo")).json()["method"]
            assert b"" == (await client.head("/hello")).content

    asyncio.run(main())


def test_cancelling_an_await_cancels_its_exchange(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            task = asyncio.create_task(client.get(HELD))
            await until(lambda: client.statistics().in_flight == 1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: client.statistics().in_flight == 0)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await client.get(HELD)
            await until(lambda: client.statistics().in_flight == 0)
            assert (await client.get("/1")).is_success

    run(main())


def test_an_error_is_raised_where_it_is_awaited(run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(retries=0) as client:
            with pytest.raises(headgate.ConnectError):
                await client.get("http://127.0.0.1:1/")

    run(main())


def test_several_loops_in_several_threads_share_a_client(server: str, run: Run) -> None:
    client, together = headgate.AsyncClient(base_url=server), threading.Barrier(8)

    def thread(number: int) -> None:
        async def main() -> None:
            together.wait()
            responses = await asyncio.gather(*(client.post("/echo", content=f"{number} {each}") for each in range(50)))
            assert [f"{number} {each}" for each in range(50)] == [response.json()["body"] for response in responses]

        run(main())

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(thread, range(8)))
    asyncio.run(client.aclose())


def test_one_loop_after_the_other_may_use_it(server: str, run: Run) -> None:
    client = headgate.AsyncClient(base_url=server)

    async def main() -> None:
        assert (await client.get("/1")).is_success

    for _ in range(5):
        run(main())
    assert 5 == client.statistics().succeeded
    asyncio.run(client.aclose())


def test_a_loop_that_has_ended_is_let_go_of(server: str, run: Run) -> None:
    client, loops = headgate.AsyncClient(base_url=server), list[weakref.ref[asyncio.AbstractEventLoop]]()

    async def main() -> None:
        loops.append(weakref.ref(asyncio.get_running_loop()))
        assert (await client.get("/1")).is_success
        held = asyncio.create_task(client.get(HELD))
        await until(lambda: client.statistics().in_flight == 1)
        held.cancel()

    for _ in range(5):
        run(main())
    gc.collect()
    assert [None] * 5 == [loop() for loop in loops]
    asyncio.run(client.aclose())


def test_a_loop_that_was_closed_while_something_was_awaited_is_let_go_of_when_another_begins(server: str) -> None:
    client, loops = headgate.AsyncClient(base_url=server), list[weakref.ref[asyncio.AbstractEventLoop]]()

    def abandon() -> None:
        loop = asyncio.new_event_loop()
        loops.append(weakref.ref(loop))
        asking = client.get(HELD)
        task = loop.create_task(asking)
        loop.run_until_complete(asyncio.wait((task,), timeout=0))
        loop.close()
        task.get_coro().close()
        task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001 - it is on purpose

    async def main() -> None:
        assert (await client.get("/1")).is_success

    for _ in range(3):
        abandon()
    asyncio.run(main())
    gc.collect()
    assert [None] * 3 == [loop() for loop in loops]
    asyncio.run(client.aclose())


def test_closing_it_ends_all_that_is_awaited_in_a_loop_that_is_busy(server: str, run: Run) -> None:
    client = headgate.AsyncClient(base_url=server, concurrency=4)
    is_busy, is_closed, errors = threading.Event(), threading.Event(), set[type]()

    async def ask() -> None:
        asking = [asyncio.create_task(client.get(HELD)) for _ in range(5000)]
        await until(lambda: client.statistics().in_flight == 4)
        is_busy.set()
        is_closed.wait(20)
        async with asyncio.timeout(20):
            errors.update(type(error) for error in await asyncio.gather(*asking, return_exceptions=True))

    thread = threading.Thread(target=lambda: run(ask()))
    thread.start()
    assert is_busy.wait(20)
    asyncio.run(client.aclose())
    is_closed.set()
    thread.join(50)
    assert errors
    assert errors <= {headgate.RequestCancelled, RuntimeError}


def test_a_cancelled_close_is_finished_by_a_second_close(server: str, run: Run) -> None:
    async def main() -> None:
        client = headgate.AsyncClient(base_url=server)
        asking = asyncio.create_task(client.get(HELD))
        await until(lambda: client.statistics().in_flight == 1)
        closing = asyncio.create_task(client.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        await client.aclose()
        with pytest.raises((headgate.RequestCancelled, RuntimeError)):
            await asking

    run(main())


def test_a_client_can_be_closed_whose_other_loop_is_closed(server: str) -> None:
    client = headgate.AsyncClient(base_url=server)
    with asyncio.Runner() as runner:
        runner.run(client.get("/hello"))
        loop = runner.get_loop()
    assert loop.is_closed()
    asyncio.run(client.aclose())


def test_closing_it_ends_what_is_awaited_in_this_and_in_other_loops(server: str) -> None:
    client, errors = headgate.AsyncClient(base_url=server), list[BaseException]()

    async def wait() -> None:
        try:
            await client.get(HELD)
        except headgate.RequestCancelled as error:
            errors.append(error)

    async def main() -> None:
        here = asyncio.create_task(wait())
        await until(lambda: client.statistics().in_flight == 2)
        await client.aclose()
        await client.aclose()
        await here
        with pytest.raises(RuntimeError, match="the client is closed"):
            await client.get("/1")

    thread = threading.Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    asyncio.run(main())
    thread.join(10)
    assert 2 == len(errors)


def test_fetch_many_yields_outcomes_as_they_finish(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            urls = [f"/echo?{each}" for each in range(3000)]
            seen = [outcome.request.url async for outcome in client.fetch_many(urls)]
            assert sorted(urls) == sorted(seen)
            assert urls == [outcome.request.url async for outcome in client.fetch_many(urls, ordered=True)]

    run(main())


def test_many_may_come_from_an_asynchronous_iterable(server: str, run: Run) -> None:
    async def requests() -> AsyncIterator[headgate.Request]:
        for each in range(2000):
            if each % 100 == 0:
                await asyncio.sleep(0)
            yield headgate.Request(f"/{each}", tag=each)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            assert set(range(2000)) == {outcome.tag async for outcome in client.fetch_many(requests())}

    run(main())


def test_an_error_of_the_source_reaches_the_caller_when_the_requests_before_it_are_done(server: str) -> None:
    async def broken() -> AsyncIterator[str]:
        yield "/1"
        await asyncio.sleep(0)
        raise LookupError("no more")

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            outcomes = client.fetch_many(broken())
            done = [await anext(outcomes)]
            with pytest.raises(LookupError, match="no more"):
                done.append(await anext(outcomes))
            assert ["/1"] == [outcome.request.url for outcome in done]

    asyncio.run(main())


def test_requests_are_read_only_as_far_as_the_bounds_allow(server: str) -> None:
    read = 0

    async def endless() -> AsyncIterator[str]:
        nonlocal read
        while True:
            read += 1
            yield f"/{read}"

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server, concurrency=4) as client:
            given = 0
            async with client.fetch_many(endless()) as outcomes:
                async for _ in outcomes:
                    given += 1
                    if given == 5000:
                        break
            assert read <= 5001 + 2 * 4 + 1024 + 512

    asyncio.run(main())


def test_leaving_early_cancels_what_is_in_flight(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            async with client.fetch_many(["/1"] + [HELD] * 20) as outcomes:
                assert (await anext(outcomes)).unwrap().is_success
                await until(lambda: client.statistics().in_flight == 20)
            await until(lambda: client.statistics().in_flight == 0)

            async for _ in client.fetch_many(["/1"] + [HELD] * 20):
                break
            gc.collect()
            await until(lambda: client.statistics().in_flight == 0)

    run(main())


def test_a_crawler_feeds_itself(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client, client.fetch_many(["/echo?6"]) as outcomes:
            seen = []
            async for outcome in outcomes:
                seen.append(number := int(outcome.unwrap().json()["path"].partition("?")[2]))
                for _ in range(2 if number else 0):
                    outcomes.submit(f"/echo?{number - 1}")
            assert {number: 2 ** (6 - number) for number in range(7)} == {each: seen.count(each) for each in seen}

    run(main())


@pytest.mark.parametrize("end", ["", "client = None", "await client.aclose()"])
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_program_may_end_without_closing_it(server: str, tmp_path: Path, end: str, loop: str) -> None:
    program = f"""
import warnings; warnings.filterwarnings("ignore", "this headgate is a debug build")
import asyncio, uvloop, headgate
async def main():
    client = headgate.AsyncClient()
    print((await client.get({server!r})).status_code)
    {end or "pass"}
{loop}.run(main())
"""
    assert "200\n" == printed_by(program, tmp_path)


def test_a_fork_has_an_engine_of_its_own(server: str, tmp_path: Path) -> None:
    program = f"""
import warnings; warnings.simplefilter("ignore")
import asyncio, os, headgate
client = headgate.AsyncClient(base_url={server!r})
async def main():
    assert (await client.get("/1")).is_success
    assert 3 == len([outcome async for outcome in client.fetch_many(["/1"] * 3)])
asyncio.run(main())
child = os.fork()
if child == 0:
    asyncio.run(main())
    os._exit(7)
assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
asyncio.run(main())
print("well")
"""
    assert "well\n" == printed_by(program, tmp_path)


def test_requests_within_a_loop_over_others_get_the_memory_that_their_bodies_have(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(concurrency=4, max_memory=4_000_000) as client:
            lengths = list[tuple[int, int]]()
            async for outcome in client.fetch_many([f"{server}/bytes/1000000"] * 60):
                inner = await client.get(f"{server}/bytes/1500000") if not lengths else outcome.unwrap()
                if len(lengths) == 1:
                    inner = [each.unwrap() async for each in client.fetch_many([f"{server}/bytes/1500000"] * 9)][-1]
                lengths.append((len(outcome.unwrap().content), len(inner.content)))
            assert [(1_000_000, 1_500_000)] * 2 + [(1_000_000, 1_000_000)] * 58 == lengths

    run(main())
