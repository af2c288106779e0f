"""Sources of requests and tables are closed when iteration ends early, and may block, fail or be late."""

import asyncio
import gc
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import headgate
from support.loops import HELD, Run, until
from support.run import serving
from support.terminal import replace_standard_error

AsyncCall = Callable[[headgate.AsyncClient, Any], Any]

IN_THREADS: dict[str, Callable[[headgate.Client, Any], Any]] = {
    "fetch_many": lambda client, source: client.fetch_many(source),
    "batches": lambda client, source: client.fetch_many(source).to_arrow_batches(),
    "map_batches": lambda client, source: client.map_batches(tables_of(source)),
}
IN_LOOPS: dict[str, AsyncCall] = {
    "fetch_many": lambda client, source: client.fetch_many(source),
    "batches": lambda client, source: client.fetch_many(source).to_arrow_batches(),
    "map_batches": lambda client, source: client.map_batches(tables_of(source)),
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancels a task, and waits until it has ended."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def tables_of(urls: Any) -> Any:
    """Returns the same URLs, each as a table, in an iterator of the same kind."""
    if isinstance(urls, AsyncIterator):
        return async_tables_of(urls)
    return now_tables_of(urls) if hasattr(urls, "gi_frame") else map(table_of, urls)


async def async_tables_of(urls: Any) -> AsyncIterator[pa.Table]:
    try:
        async for url in urls:
            yield table_of(url)
    finally:
        await urls.aclose()


def now_tables_of(urls: Any) -> Iterator[pa.Table]:
    try:
        yield from map(table_of, urls)
    finally:
        urls.close()


def table_of(url: str) -> pa.Table:
    return pa.table({"url": [url]})


def rows_in(taken: Any) -> int:
    """Returns how many results are in an outcome or a batch."""
    return 1 if isinstance(taken, headgate.Succeeded | headgate.Failed) else pa.record_batch(taken).num_rows


class Source:
    """Generators that count when they are closed; they yield one URL, and then URLs that never get a response."""

    def __init__(self) -> None:
        self.closed = 0
        self.waits = asyncio.Event()
        self.closes = asyncio.Event()
        self.may_close = asyncio.Event()
        self.may_close.set()

    def now(self) -> Iterator[str]:
        try:
            yield "/1"
            while True:
                yield HELD
        finally:
            self.closed += 1

    async def later(self) -> AsyncIterator[str]:
        try:
            yield "/1"
            yield HELD
            self.waits.set()
            await asyncio.Event().wait()
        finally:
            self.closes.set()
            await self.may_close.wait()
            self.closed += 1


class Kept(Iterator[str]):
    """An iterator that is no generator, and that only the caller may close."""

    def __init__(self) -> None:
        self.is_closed = False

    def __next__(self) -> str:
        return "/1"

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize("call", IN_THREADS)
def test_leaving_the_block_closes_a_generator_and_nothing_else(server: str, call: str) -> None:
    source, kept = Source(), Kept()
    held = source.now()
    with headgate.Client(base_url=server, concurrency=4) as client:
        with IN_THREADS[call](client, held) as results:
            next(results)
            assert 0 == source.closed
        assert 1 == source.closed
        with IN_THREADS[call](client, kept) as results:
            next(results)
        assert not kept.is_closed


def test_an_error_of_a_closing_generator_reaches_the_caller_and_all_is_closed(server: str) -> None:
    def broken() -> Iterator[str]:
        try:
            while True:
                yield HELD
        finally:
            raise LookupError("while closing")

    with headgate.Client(base_url=server, concurrency=4) as client:
        many = client.fetch_many(broken())
        many.submit("/1")
        assert next(many).unwrap().is_success
        with pytest.raises(LookupError, match="while closing"):
            many.close()
        assert [] == list(many)


def test_a_generator_may_close_what_reads_it(server: str) -> None:
    results = list[Any]()

    def ending() -> Iterator[str]:
        yield "/1"
        results[0].close()
        yield "/2"

    async def ending_later() -> AsyncIterator[str]:
        yield "/1"
        await results[0].aclose()
        yield "/2"

    with headgate.Client(base_url=server) as client:
        results[:] = [client.fetch_many(ending())]
        assert [] == list(results[0])

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            for call in IN_LOOPS.values():
                results[:] = [call(client, ending_later())]
                assert 1 >= len([taken async for taken in results[0]])

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["now", "later"])
@pytest.mark.parametrize("call", IN_LOOPS)
def test_leaving_the_block_in_a_loop_closes_a_generator(server: str, run: Run, call: str, kind: str) -> None:
    async def main() -> None:
        source, kept = Source(), Kept()
        held = getattr(source, kind)()
        async with headgate.AsyncClient(base_url=server, concurrency=4) as client:
            async with IN_LOOPS[call](client, held) as results:
                await anext(results)
                assert 0 == source.closed
            assert 1 == source.closed
            async with IN_LOOPS[call](client, kept) as results:
                await anext(results)
            assert not kept.is_closed

    run(main())


def test_a_generator_that_blocks_is_closed_when_it_has_gone_on(server: str) -> None:
    is_read, may_go_on, closed = threading.Event(), threading.Event(), threading.Event()

    def blocking() -> Iterator[pa.Table]:
        try:
            yield table_of("/1")
            is_read.set()
            may_go_on.wait(20)
            yield table_of("/2")
        finally:
            closed.set()

    async def main() -> None:
        source = blocking()
        async with headgate.AsyncClient(base_url=server) as client:
            async with client.map_batches(source) as results:
                await anext(results)
                await until(is_read.is_set)
            assert not closed.is_set()
            may_go_on.set()
            await until(closed.is_set)

    asyncio.run(main())


@pytest.mark.parametrize("call", IN_LOOPS)
def test_a_source_that_was_cancelled_is_an_error(server: str, run: Run, call: str) -> None:
    async def stray() -> AsyncIterator[str]:
        yield "/1"
        task = asyncio.create_task(asyncio.sleep(3600))
        task.cancel()
        await task

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            with pytest.raises(headgate.StrayCancellation) as raised:
                async for _ in IN_LOOPS[call](client, stray()):
                    pass
            assert isinstance(raised.value.__cause__, asyncio.CancelledError)

    run(main())


@pytest.mark.parametrize("call", IN_LOOPS)
def test_a_cancelled_wait_loses_nothing(server: str, run: Run, call: str) -> None:
    async def main() -> None:
        waits, may_go_on = asyncio.Event(), asyncio.Event()

        async def stopping() -> AsyncIterator[str]:
            yield "/1"
            waits.set()
            await may_go_on.wait()
            yield "/2"

        async with headgate.AsyncClient(base_url=server) as client:
            results = IN_LOOPS[call](client, stopping())
            rows = rows_in(await anext(results))
            task = asyncio.create_task(anext(results))
            await waits.wait()
            for _ in range(10):
                await asyncio.sleep(0)
            await cancelled(task)
            may_go_on.set()
            assert 2 == rows + sum([rows_in(taken) async for taken in results])

    run(main())


@pytest.mark.parametrize("call", IN_LOOPS)
def test_interrupting_a_cell_ends_the_call_and_the_next_step_raises(
    server: str, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    shell = SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            results = IN_LOOPS[call](client, iter([HELD]))
            task = asyncio.create_task(anext(results))
            await until(lambda: client.statistics().in_flight == 1)
            await cancelled(task)
            await until(lambda: client.statistics().in_flight == 0)
            with pytest.raises(headgate.ClosedEarly, match="a wait for it was cancelled"):
                await anext(results)

    asyncio.run(main())


def test_a_wait_that_is_cancelled_while_a_table_is_read_loses_nothing(server: str, run: Run) -> None:
    is_read, may_go_on = threading.Event(), threading.Event()
    schema = pa.schema({"id": pa.int64()})

    def stuck() -> Iterator[pa.RecordBatch]:
        is_read.set()
        may_go_on.wait(20)
        yield pa.record_batch({"id": [1, 2]}, schema=schema)

    async def main() -> None:
        is_read.clear()
        may_go_on.clear()
        async with headgate.AsyncClient(base_url=server) as client:
            results = client.map_batches(pa.RecordBatchReader.from_batches(schema, stuck()), url="/{id}")
            task = asyncio.create_task(anext(results))
            await until(is_read.is_set)
            await cancelled(task)
            may_go_on.set()
            assert 2 == sum([rows_in(taken) async for taken in results])

    run(main())


def test_a_table_that_another_task_cuts_off_is_an_error(server: str) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            results = client.fetch_many(["/1", HELD]).to_arrow_batches()
            task = asyncio.create_task(results.table())
            await until(lambda: client.statistics().in_flight == 1 and client.statistics().succeeded == 1)
            await results.aclose()
            with pytest.raises(headgate.ClosedEarly, match="another task closed it"):
                await task
            assert 0 == (await results.table()).num_rows

    asyncio.run(main())


def test_sources_that_block_all_threads_of_a_loop_do_not_stop_started_requests(server: str, run: Run) -> None:
    succeeded = threading.Event()

    def waiting() -> Iterator[pa.Table]:
        yield table_of("/1")
        assert succeeded.wait(20)
        yield table_of("/2")

    async def main() -> None:
        succeeded.clear()
        with ThreadPoolExecutor(1) as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            async with headgate.AsyncClient(base_url=server) as client:
                rows = 0
                async for batch in client.map_batches(waiting()):
                    rows += rows_in(batch)
                    succeeded.set()
                assert 2 == rows

    run(main())


@pytest.mark.parametrize("call", IN_LOOPS)
def test_a_cancelled_aclose_is_finished_by_a_second_aclose(server: str, run: Run, call: str) -> None:
    async def main() -> None:
        source = Source()
        async with headgate.AsyncClient(base_url=server) as client:
            results = IN_LOOPS[call](client, source.later())
            await anext(results)
            # The source is read only while a task waits for more.
            taking = asyncio.create_task(anext(results))
            await source.waits.wait()
            await until(lambda: client.statistics().in_flight == 1)
            await cancelled(taking)
            source.may_close.clear()
            try:
                closing = asyncio.create_task(results.aclose())
                await source.closes.wait()
                await cancelled(closing)
                again = asyncio.create_task(results.aclose())
                for _ in range(10):
                    await asyncio.sleep(0)
                assert (0, False) == (source.closed, again.done())
            finally:
                source.may_close.set()
            await again
            assert 1 == source.closed
            assert [] == [taken async for taken in results]
            await until(lambda: client.statistics().in_flight == 0)

    run(main())


@pytest.mark.parametrize("kind", ["now", "later"])
@pytest.mark.parametrize("call", IN_LOOPS)
def test_a_generator_of_dropped_results_is_closed(server: str, run: Run, call: str, kind: str) -> None:
    async def main() -> None:
        source = Source()
        held = getattr(source, kind)()
        async with headgate.AsyncClient(base_url=server, concurrency=4) as client:
            async for _ in IN_LOOPS[call](client, held):
                break
            gc.collect()
            await until(lambda: source.closed == 1)
            await until(lambda: client.statistics().in_flight == 0)

    run(main())


@pytest.mark.parametrize("call", ["fetch_many", "batches"])
def test_the_progress_of_dropped_results_is_removed(server: str, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    terminal = replace_standard_error(monkeypatch)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            many = client.fetch_many(["/1", HELD], progress=True)
            results = many if call == "fetch_many" else many.to_arrow_batches()
            await anext(results)
            await until(lambda: client.statistics().in_flight == 1)
            assert terminal.has_block
            del many, results
            gc.collect()
            assert terminal.had_block

    asyncio.run(main())
