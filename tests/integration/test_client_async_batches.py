"""Results in batches in an event loop: those of `AsyncClient`, and `headgate.amap_batches`."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import headgate
from support.loops import HELD, Run, until
from support.run import serving


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


async def rows_of(batches: AsyncIterator[Any]) -> list[dict[str, Any]]:
    rows = [row async for batch in batches for row in pa.record_batch(batch).to_pylist()]
    return sorted(rows, key=lambda row: row["row"])


async def slowly(count: int) -> AsyncIterator[str]:
    for number in range(count):
        yield f"/bytes/{number % 5}"
        if number % 100 == 0:
            await asyncio.sleep(0)


def test_requests_become_batches(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            for urls in (slowly(3000), [f"/bytes/{number % 5}" for number in range(3000)]):
                rows = await rows_of(client.fetch_many(urls).to_arrow_batches(drop=["headers"]))
                assert [(number, 200, number % 5) for number in range(3000)] == [
                    (row["row"], row["status"], row["received_bytes"]) for row in rows
                ]
            assert [] == await rows_of(client.fetch_many([]).to_arrow_batches())
            assert [] == await rows_of(client.fetch_many(slowly(0)).to_arrow_batches())

    run(main())


def test_tables_of_each_kind_are_fetched(server: str, run: Run) -> None:
    async def later() -> AsyncIterator[pa.Table]:
        for number in range(3):
            await asyncio.sleep(0)
            yield pa.table({"id": range(number * 100, number * 100 + 100)})

    def now() -> Iterator[pa.Table]:
        for number in range(3):
            yield pa.table({"id": range(number * 100, number * 100 + 100)})

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            for tables in (later(), now(), pa.table({"id": range(300)})):
                rows = await rows_of(client.map_batches(tables, url="/{id}"))
                assert [(number, 200) for number in range(300)] == [(row["id"], row["status"]) for row in rows]
            for tables in (later(), now()):
                rows = await rows_of(headgate.amap_batches(tables, url=server + "/{id}"))
                assert list(range(300)) == sorted(row["id"] for row in rows)
            results = await client.fetch_table(later(), url="/{id}", keep=())
            assert (300, "remote_addr") == (results.num_rows, pa.table(results).schema.names[-1])
            assert 0 == (await client.fetch_table([])).num_rows

    run(main())


def test_the_loop_runs_while_a_table_is_read(server: str) -> None:
    is_read, may_go_on = threading.Event(), threading.Event()
    schema = pa.schema({"id": pa.int64()})

    def stuck() -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"id": [1]}, schema=schema)
        is_read.set()
        may_go_on.wait(20)
        yield pa.record_batch({"id": [2]}, schema=schema)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            reader = pa.RecordBatchReader.from_batches(schema, stuck())
            task = asyncio.create_task(client.fetch_table(reader, url="/{id}"))
            await until(is_read.is_set)
            assert 200 == (await client.get("/hello")).status_code
            may_go_on.set()
            assert 2 == (await task).num_rows

    asyncio.run(main())


def test_an_endless_source_is_read_as_far_as_the_bounds_allow(server: str) -> None:
    async def main() -> None:
        read = 0

        async def endless() -> AsyncIterator[str]:
            nonlocal read
            for read in count(1):  # noqa: B007 - another function reads it
                yield "/1"

        async with headgate.AsyncClient(base_url=server, concurrency=50) as client:
            done = most = 0
            async with client.fetch_many(endless()).to_arrow_batches() as batches:
                async for batch in batches:
                    done += batch.num_rows
                    most = max(most, read - done)
                    if done >= 10_000:
                        break
            # Twice the concurrency and 1,024 rows are outstanding, a batch is collected, and one row was read.
            assert most <= 2 * 50 + 1024 + 1024 + 1024
            await until(lambda: client.statistics().in_flight == 0)
            assert [] == await rows_of(batches)

    asyncio.run(main())


def test_cancelling_a_task_that_takes_a_batch_cancels_what_is_in_flight(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            table = pa.table({"url": [HELD] * 3})
            calls: list[Callable[[], Coroutine[Any, Any, object]]] = [
                lambda: rows_of(client.fetch_many([HELD] * 3).to_arrow_batches()),
                lambda: rows_of(client.map_batches(table, keep=())),
                lambda: client.fetch_table(table, keep=()),
            ]
            for call in calls:
                task = asyncio.create_task(call())
                await until(lambda: client.statistics().in_flight == 3)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                await until(lambda: client.statistics().in_flight == 0)

    run(main())


def test_batches_that_are_dropped_cancel_what_is_in_flight(server: str) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            batches = client.fetch_many(["/1", HELD, HELD]).to_arrow_batches()
            assert 1 == (await anext(batches)).num_rows
            await until(lambda: client.statistics().in_flight == 2)
            del batches
            gc.collect()
            await until(lambda: client.statistics().in_flight == 0)
            unused = client.fetch_many(slowly(3)).to_arrow_batches()
            del unused

    asyncio.run(main())


def test_an_error_of_the_input_reaches_the_consumer_of_batches(server: str) -> None:
    async def broken() -> AsyncIterator[Any]:
        yield pa.table({"id": [1]})
        raise LookupError("mine")

    def broken_too() -> Iterator[Any]:
        yield pa.table({"id": [1]})
        raise LookupError("mine")

    async def broken_urls() -> AsyncIterator[str]:
        yield "/1"
        raise LookupError("mine")

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            for batches in (
                client.map_batches(broken(), url="/{id}"),
                client.map_batches(broken_too(), url="/{id}"),
                client.fetch_many(broken_urls()).to_arrow_batches(),
            ):
                with pytest.raises(LookupError, match="mine"):
                    await rows_of(batches)
                assert [] == await rows_of(batches)
            with pytest.raises(headgate.InputError, match='there is no column "url"'):
                await client.fetch_table(pa.table({"x": [1]}))
            with pytest.raises(TypeError, match="batches must be a table"):
                client.map_batches(5)
            with pytest.raises(TypeError, match="for `async for` is for amap_batches"):
                await asyncio.to_thread(headgate.map_batches, broken())

    asyncio.run(main())


def test_batches_come_before_outcomes_or_not_at_all(server: str) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client:
            many = client.fetch_many(["/1", "/2"])
            await anext(many)
            with pytest.raises(RuntimeError, match=r"batches\(\) comes first"):
                many.to_arrow_batches()
            await many.aclose()
            taken = client.fetch_many(slowly(3))
            assert 3 == len(await rows_of(taken.to_arrow_batches()))
            with pytest.raises(RuntimeError, match="there are no outcomes"):
                await anext(taken)
        with pytest.raises(RuntimeError, match="the client is closed"):
            client.map_batches(pa.table({"url": ["/1"]}))

    asyncio.run(main())
