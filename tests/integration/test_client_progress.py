"""Progress of calls, and requests that are submitted to a running call."""

import asyncio
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pytest

import headgate
from support.run import serving, wait_for
from support.terminal import replace_standard_error

HELD = "/delay/3600"
MOST = 1_000_000
"""The bound of queued requests."""
WAITS_AT = 10_000
"""A thread that does not take the outcomes waits while this many are queued."""
Tell = Callable[[headgate.Snapshot], object]
CALLS: dict[str, Callable[[headgate.Client, Iterable[str], Any], Iterable[object]]] = {
    "fetch_many": lambda client, urls, told: client.fetch_many(urls, progress=told),
    "batches": lambda client, urls, told: client.fetch_many(urls, progress=told).to_arrow_batches(),
    "map_batches": lambda client, urls, told: client.map_batches(pa.table({"url": [*urls]}), progress=told),
    "fetch_table": lambda client, urls, told: client.fetch_table(pa.table({"url": [*urls]}), progress=told).batches,
}


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[headgate.Client]:
    with headgate.Client(base_url=server) as client:
        yield client


@pytest.mark.parametrize("call", CALLS)
def test_a_progress_function_gets_the_final_figures(client: headgate.Client, call: str) -> None:
    told: list[headgate.Snapshot] = []
    assert list(CALLS[call](client, ["/1"] * 20, told.append))
    assert 20 == told[-1].rows


@pytest.mark.parametrize("call", CALLS)
def test_a_progress_function_is_called_while_nothing_comes_and_what_it_raises_ends_the_call(
    client: headgate.Client, call: str
) -> None:
    told = []

    def third_time(snapshot: headgate.Snapshot) -> None:
        told.append(snapshot)
        if len(told) == 3:
            raise LookupError("enough")

    with pytest.raises(LookupError, match="enough"):
        list(CALLS[call](client, [HELD] * 3, third_time))
    wait_for(lambda: client.statistics().in_flight == 0)


def test_a_progress_function_is_called_in_a_loop(server: str) -> None:
    async def main() -> None:
        def third_time(snapshot: headgate.Snapshot) -> None:
            told.append(snapshot)
            if len(told) == 3:
                raise LookupError("enough")

        async with headgate.AsyncClient(base_url=server) as client:
            held = pa.table({"url": [HELD]})
            for results in (
                lambda: client.fetch_many([HELD], progress=third_time),
                lambda: client.fetch_many([HELD], progress=third_time).to_arrow_batches(),
                lambda: client.map_batches(held, progress=third_time),
                lambda: headgate.amap_batches(held, url=server + HELD, keep=(), progress=third_time),
            ):
                told = list[headgate.Snapshot]()
                with pytest.raises(LookupError, match="enough"):
                    [_ async for _ in results()]
            told = []
            assert 3 == len([_ async for _ in client.fetch_many(["/1"] * 3, progress=told.append)])
            assert told

    asyncio.run(main())


@pytest.mark.parametrize("call", CALLS)
def test_progress_is_shown_and_does_not_stay(
    client: headgate.Client, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = replace_standard_error(monkeypatch)
    assert list(CALLS[call](client, ["/1"] * 20, True))  # noqa: FBT003 - as a user gives it
    assert terminal.had_block


def test_progress_is_removed_when_the_client_is_closed(
    client: headgate.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = replace_standard_error(monkeypatch)
    batches = client.fetch_many(["/1", HELD], progress=True).to_arrow_batches()
    next(batches)
    assert terminal.has_block
    client.close()
    with pytest.raises(headgate.HeadgateError, match="the client is closed"):
        next(batches)
    assert terminal.had_block


def test_progress_is_a_switch_or_a_function(client: headgate.Client) -> None:
    with pytest.raises(TypeError, match="progress must be True, False or a function that takes a Snapshot, not int"):
        client.fetch_many([], progress=5)  # type: ignore[call-overload] # the mistake
    with pytest.raises(headgate.UsageError, match="progress must be True, False or a function"):
        client.map_batches([], progress="yes")  # type: ignore[arg-type] # the mistake


def test_the_reader_of_outcomes_submits_without_waiting_until_the_queue_is_full(client: headgate.Client) -> None:
    with client.fetch_many(["/first", "/second"]) as pages:
        next(pages)
        for _ in range(pages.room):
            pages.submit("/next")
        assert 0 == pages.room
        with pytest.raises(headgate.QueueFull, match="1,000,000 submitted requests are already waiting: submit again"):
            pages.submit("/too-many")
        taken = list(itertools.islice(pages, 5_000))
        pages.submit("/last")
    assert {"/next"} == {page.request.url for page in taken[10:]}


def test_another_thread_waits_while_many_requests_are_queued(client: headgate.Client) -> None:
    most = 0
    with client.fetch_many() as pages:

        def submit() -> None:
            nonlocal most
            has_begun.wait()
            for number in range(2 * WAITS_AT):
                pages.submit(f"/{number}")
                most = max(most, MOST - pages.room)
            pages.finish()

        has_begun = threading.Event()
        thread = threading.Thread(target=submit)
        thread.start()
        pages.submit("/first")
        done = 0
        for _ in pages:
            if not done:
                has_begun.set()
                wait_for(lambda: pages.room == MOST - WAITS_AT)
            done += 1
        thread.join()
    assert (2 * WAITS_AT + 1, WAITS_AT) == (done, most)


def test_closing_ends_the_wait_of_a_submitting_thread(client: headgate.Client) -> None:
    pages = client.fetch_many(["/1"])
    next(pages)
    raised: list[Exception] = []

    def submit() -> None:
        try:
            for _ in range(2 * WAITS_AT):
                pages.submit("/2")
        except RuntimeError as error:
            raised.append(error)

    thread = threading.Thread(target=submit)
    thread.start()
    wait_for(lambda: pages.room == MOST - WAITS_AT)
    pages.close()
    thread.join(20)
    assert ["these requests are closed: no more can be submitted"] == [str(error) for error in raised]


def test_a_loop_submits_until_the_queue_is_full(server: str) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server) as client, client.fetch_many() as pages:
            for _ in range(MOST):
                pages.submit("/1")
            with pytest.raises(headgate.QueueFull):
                pages.submit("/2")
            assert 200 == (await anext(pages)).unwrap().status_code

    asyncio.run(main())
