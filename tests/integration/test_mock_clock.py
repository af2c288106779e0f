"""The virtual clock of a mock: waits take no real time, and everything else is as with a real clock.

Hours pass in these tests: with a real clock, each of them would exceed the time limit of a test.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

import headgate
import headgate.testing
from headgate.testing import MockRequest, MockResponse, MockServer

BASE_URL = "https://api.example.com"
HOUR_S = 3600
PROCESSING_S = 60
"""More than the real time for which a test computes, beside busy processes: it passes on the virtual clock, too."""


@pytest.fixture
def mock() -> Iterator[MockServer]:
    with headgate.testing.mock(base_url=BASE_URL, virtual_clock=True) as mock:
        yield mock


@pytest.fixture
def client() -> Iterator[headgate.Client]:
    with headgate.Client(base_url=BASE_URL, retries=0, total_timeout=1000 * HOUR_S) as client:
        yield client


def assert_elapsed(expected_s: float, mock: MockServer) -> None:
    """Asserts that this time has passed, with a little for what is computed."""
    assert expected_s <= mock.elapsed_s < expected_s + PROCESSING_S


def test_a_delay_passes_at_once(mock: MockServer, client: headgate.Client) -> None:
    mock.get("/slow").respond(text="late", delay=HOUR_S)
    assert "late" == client.get("/slow", timeout=2 * HOUR_S).text
    assert_elapsed(HOUR_S, mock)


def test_no_more_than_a_year_passes_at_once(mock: MockServer) -> None:
    year_s = 366 * 24 * HOUR_S
    mock.advance(year_s)
    assert_elapsed(year_s, mock)
    with pytest.raises(ValueError, match="a year"):
        mock.advance(year_s + 1)


def test_a_timeout_ends_a_request_at_its_time(mock: MockServer, client: headgate.Client) -> None:
    mock.get("/slow").respond(delay=10 * HOUR_S)
    with pytest.raises(headgate.ReadTimeout):
        client.get("/slow", timeout=HOUR_S)
    assert_elapsed(HOUR_S, mock)
    # The delay of the request that was given up is not waited for, and no later call is affected.
    mock.get("/quick")
    assert 200 == client.get("/quick").status_code
    assert_elapsed(HOUR_S, mock)


@pytest.mark.parametrize("streams", [False, True])
def test_the_total_timeout_ends_a_call_whatever_it_waits_for(mock: MockServer, *, streams: bool) -> None:
    mock.get("/item")
    with headgate.Client(base_url=BASE_URL, rate="1/h", total_timeout=600) as client:
        client.get("/item")
        call = client.stream("GET", "/item").__enter__ if streams else partial(client.get, "/item")
        with pytest.raises(headgate.TotalTimeout, match="rate='1/h'"):
            call()
    assert_elapsed(600, mock)


@pytest.mark.parametrize("streams", [False, True])
def test_timeouts_of_a_call_in_a_loop_pass_at_once(mock: MockServer, *, streams: bool) -> None:
    mock.get("/slow").respond(delay=HOUR_S)

    async def call(client: headgate.AsyncClient) -> None:
        if streams:
            async with client.stream("GET", "/slow"):
                pass
        else:
            await client.get("/slow")

    async def main() -> None:
        async with headgate.AsyncClient(
            base_url=BASE_URL, concurrency=1, timeout=2 * HOUR_S, total_timeout=10 * HOUR_S, pool_timeout=600
        ) as client:
            calls = await asyncio.gather(call(client), call(client), return_exceptions=True)
            assert [headgate.PoolTimeout] == [type(failed) for failed in calls if failed is not None]

    asyncio.run(main())
    assert_elapsed(HOUR_S, mock)


def test_the_client_waits_as_long_as_retry_after_says(mock: MockServer) -> None:
    mock.get("/busy").respond_in_turn([MockResponse(429, headers={"Retry-After": "50"}), 200])
    with headgate.Client(base_url=BASE_URL) as client:
        assert 200 == client.get("/busy").status_code
    assert_elapsed(50, mock)


def test_the_delays_between_retries_pass_at_once(mock: MockServer) -> None:
    mock.get("/flaky").respond_in_turn([503] * 9 + [200])
    with headgate.Client(base_url=BASE_URL, retries=9, retry_delay=60, total_timeout=HOUR_S) as client:
        assert 200 == client.get("/flaky").status_code
    assert 60 < mock.elapsed_s
    assert 10 == mock.call_count


@pytest.mark.parametrize("option", ["rate", "rate_per_host"])
def test_a_rate_is_kept_exactly(mock: MockServer, option: str) -> None:
    times: list[float] = []

    def answer(_: MockRequest) -> int:
        times.append(mock.elapsed_s)
        return 200

    mock.get("/item", response=answer)
    with headgate.Client(base_url=BASE_URL, **{option: "1/min"}) as client:  # type: ignore[arg-type]
        assert 100 == sum(outcome.error is None for outcome in client.fetch_many(["/item"] * 100))
    assert_elapsed(99 * 60, mock)
    # A request starts when its minute has come, and not later than processing takes.
    assert all(60 * number <= at < 60 * number + PROCESSING_S for number, at in enumerate(times))


def test_pauses_between_pieces_of_a_body_pass_at_once(mock: MockServer, client: headgate.Client) -> None:
    mock.get("/feed", response=MockResponse(content=[b"1", b"2", b"3"], pause=HOUR_S))
    assert b"123" == client.get("/feed", timeout=10 * HOUR_S).content
    assert_elapsed(2 * HOUR_S, mock)
    with client.stream("GET", "/feed", timeout=10 * HOUR_S) as response:
        arrived = [(piece, round(mock.elapsed_s / HOUR_S)) for piece in response.iter_bytes()]
    assert [(b"1", 2), (b"2", 3), (b"3", 4)] == arrived


def test_the_idle_timeout_ends_a_body_that_pauses_for_too_long(mock: MockServer) -> None:
    mock.get("/feed", response=MockResponse(content=[b"1", b"2"], pause=10 * HOUR_S))
    with (
        headgate.Client(
            base_url=BASE_URL, idle_timeout=HOUR_S, timeout=100 * HOUR_S, total_timeout=100 * HOUR_S, retries=0
        ) as client,
        pytest.raises(headgate.ReadTimeout),
    ):
        client.get("/feed")
    assert_elapsed(HOUR_S, mock)


def test_coroutine_functions_of_a_mock_sleep_on_the_virtual_clock(mock: MockServer, client: headgate.Client) -> None:
    async def answer(request: MockRequest) -> MockResponse:
        await asyncio.sleep(HOUR_S)
        return MockResponse(text=request.path)

    mock.get("/slow", response=answer)
    assert "/slow" == client.get("/slow", timeout=2 * HOUR_S).text
    assert_elapsed(HOUR_S, mock)


def test_no_time_is_skipped_while_a_function_of_the_mock_runs(mock: MockServer) -> None:
    others_wait = threading.Event()

    def answer(_: MockRequest) -> int:
        others_wait.wait()
        time.sleep(0.1)  # many times as long as a jump takes to come
        return 200

    def wait(_: MockRequest) -> MockResponse:
        others_wait.set()
        return MockResponse(delay=HOUR_S)

    mock.get("/computed", response=answer)
    mock.get("/slow", response=wait)
    with headgate.Client(base_url=BASE_URL, timeout=2 * HOUR_S, total_timeout=10 * HOUR_S) as client:
        ended = [mock.elapsed_s for _ in client.fetch_many(["/computed", "/slow"])]
    assert ended[0] < PROCESSING_S
    assert HOUR_S <= ended[1]


def test_no_time_is_skipped_while_the_only_thread_does_not_wait(mock: MockServer) -> None:
    mock.get("/quick")
    mock.get("/slow").respond(delay=HOUR_S)
    with headgate.Client(base_url=BASE_URL, timeout=2 * HOUR_S, total_timeout=10 * HOUR_S) as client:
        outcomes = client.fetch_many(["/quick", "/slow"])
        next(outcomes)
        time.sleep(0.1)  # many times as long as a jump takes to come
        assert mock.elapsed_s < PROCESSING_S
        next(outcomes)
    assert_elapsed(HOUR_S, mock)


def test_threads_wait_side_by_side(mock: MockServer, client: headgate.Client) -> None:
    mock.get("/slow").respond(delay=HOUR_S)

    def call() -> None:
        for _ in range(3):
            assert 200 == client.get("/slow", timeout=2 * HOUR_S).status_code

    threads = [threading.Thread(target=call) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 60 == mock.call_count
    # How many calls wait at once depends on the threads.
    assert mock.elapsed_s < 60 * HOUR_S


def test_tasks_of_a_loop_wait_side_by_side(mock: MockServer) -> None:
    mock.get("/slow").respond(delay=HOUR_S)
    mock.get("/never").respond(delay=100 * HOUR_S)
    mock.get("/busy").respond_in_turn([MockResponse(503), 200])

    async def main() -> list[object]:
        async with headgate.AsyncClient(base_url=BASE_URL, retry_delay=60, total_timeout=100 * HOUR_S) as client:
            calls = [
                client.get("/slow", timeout=2 * HOUR_S),
                client.get("/never", timeout=HOUR_S),
                client.get("/busy"),
            ]
            results = await asyncio.gather(*calls, return_exceptions=True)
            return [result.status_code if isinstance(result, headgate.Response) else type(result) for result in results]

    assert [200, headgate.ReadTimeout, 200] == asyncio.run(main())
    assert mock.elapsed_s < 10 * HOUR_S


def test_a_call_within_the_block_of_a_stream_waits_on_the_virtual_clock(mock: MockServer) -> None:
    mock.get("/large", response=MockResponse(content=[b"a" * 100_000] * 30))
    mock.get("/slow").respond(delay=HOUR_S)
    with (
        headgate.Client(base_url=BASE_URL, timeout=2 * HOUR_S, total_timeout=10 * HOUR_S) as client,
        client.stream("GET", "/large") as response,
    ):
        assert 200 == client.get("/slow").status_code
        assert 3_000_000 == sum(map(len, response.iter_bytes()))
    assert_elapsed(HOUR_S, mock)


def test_no_time_is_skipped_while_a_request_is_on_the_network(server: str) -> None:
    with (
        headgate.testing.mock(virtual_clock=True) as mock,
        headgate.Client(timeout=2 * HOUR_S) as client,
    ):
        mock.pass_through(prefix=server)
        mock.get(f"{BASE_URL}/slow").respond(delay=HOUR_S)
        outcomes = client.fetch_many([f"{server}/delay/0.2", f"{BASE_URL}/slow"])
        assert (200, 0) == (next(outcomes).unwrap().status_code, mock.elapsed_s // PROCESSING_S)
        assert 200 == next(outcomes).unwrap().status_code
        assert_elapsed(HOUR_S, mock)


def test_jobs_and_tables_wait_on_the_virtual_clock(mock: MockServer, tmp_path: Path) -> None:
    mock.get("/items/{number}").respond(delay=60)
    url = f"{BASE_URL}/items/[1-50]"
    summary = headgate.fetch(url, tmp_path / "items", progress=False, rate="1/min", timeout=HOUR_S)
    assert {200: 50} == summary.statuses
    assert_elapsed(50 * 60, mock)
    ids = {"id": list(range(20))}
    pyarrow = pytest.importorskip("pyarrow")
    table = headgate.fetch_table(pyarrow.table(ids), url=f"{BASE_URL}/items/{{id}}", timeout=HOUR_S, concurrency=1)
    assert 20 == pyarrow.table(table).num_rows
    assert_elapsed(70 * 60, mock)


def test_a_job_that_was_started_needs_no_caller_that_waits(mock: MockServer, tmp_path: Path) -> None:
    mock.get("/items/{number}")
    job = headgate.start(f"{BASE_URL}/items/[1-50]", tmp_path / "items", rate="1/min")
    while job.summary is None:
        time.sleep(0.01)
    assert {200: 50} == job.wait().statuses
    assert_elapsed(49 * 60, mock)


def test_advance_lets_time_pass_between_two_calls(mock: MockServer, client: headgate.Client) -> None:
    mock.get("/item")
    client.get("/item")
    mock.advance(timedelta(hours=1))
    assert_elapsed(HOUR_S, mock)
    assert 200 == client.get("/item").status_code
    with pytest.raises(ValueError, match="seconds must be 0 or more seconds"):
        mock.advance(-1)


def test_a_mock_without_a_virtual_clock_measures_real_time() -> None:
    mock = headgate.testing.mock()
    assert 0 == mock.elapsed_s
    with mock:
        began = time.monotonic()
        assert mock.elapsed_s <= time.monotonic() - began + PROCESSING_S
        with pytest.raises(RuntimeError, match=r"mock\(virtual_clock=True\)"):
            mock.advance(1)
    assert mock.elapsed_s == mock.elapsed_s > 0


def test_the_clock_is_virtual_until_the_last_block_ends(client: headgate.Client) -> None:
    with headgate.testing.mock(base_url=BASE_URL, virtual_clock=True) as outer:
        with headgate.testing.mock(base_url=BASE_URL) as inner:
            inner.get("/slow").respond(delay=HOUR_S)
            assert 200 == client.get("/slow", timeout=2 * HOUR_S).status_code
            assert_elapsed(HOUR_S, inner)
        with headgate.testing.mock(base_url=BASE_URL, virtual_clock=True) as inner:
            inner.get("/slow").respond(delay=HOUR_S)
            assert 200 == client.get("/slow", timeout=2 * HOUR_S).status_code
        outer.get("/slow").respond(delay=HOUR_S)
        assert 200 == client.get("/slow", timeout=2 * HOUR_S).status_code
        assert_elapsed(3 * HOUR_S, outer)
    with headgate.testing.mock(base_url=BASE_URL) as after:
        after.get("/slow").respond(delay=0.2)
        began = time.monotonic()
        assert 200 == client.get("/slow").status_code
        assert time.monotonic() - began >= 0.2


def test_a_fork_within_the_block_has_a_real_clock_and_may_begin_a_virtual_one(
    mock: MockServer, client: headgate.Client
) -> None:
    mock.get("/slow").respond(delay=HOUR_S)
    assert 200 == client.get("/slow", timeout=2 * HOUR_S).status_code
    child = os.fork()
    if child == 0:
        try:
            with (
                headgate.testing.mock(base_url=BASE_URL, virtual_clock=True) as own,
                headgate.Client(base_url=BASE_URL, total_timeout=10 * HOUR_S) as own_client,
            ):
                own.get("/slow").respond(delay=HOUR_S)
                assert 200 == own_client.get("/slow", timeout=2 * HOUR_S).status_code
                assert_elapsed(HOUR_S, own)
            os._exit(0)
        finally:
            os._exit(1)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def statuses_of(client: headgate.Client) -> list[object]:
    outcomes = sorted(client.fetch_many([f"/{number}" for number in range(12)]), key=lambda outcome: outcome.index)
    return [outcome.error.kind if outcome.error else outcome.unwrap().status_code for outcome in outcomes]


def answers() -> Callable[[MockRequest], int | MockResponse]:
    """Returns a function whose responses depend on how often each path was requested."""
    seen: dict[str, int] = {}

    def answer(request: MockRequest) -> int | MockResponse:
        number = int(request.path[1:])
        seen[request.path] = seen.get(request.path, 0) + 1
        match number % 4:
            case 0:
                return 503 if seen[request.path] <= number else 200
            case 1:
                return MockResponse(delay=5 if seen[request.path] == 1 else 0)
            case 2:
                return MockResponse(content=[b"a", b"b"], pause=0.02)
        return MockResponse(delay=5)

    return answer


def test_results_are_those_of_a_real_clock() -> None:
    results = []
    for is_virtual in (False, True):
        with (
            headgate.testing.mock(answers(), virtual_clock=is_virtual),
            headgate.Client(base_url=BASE_URL, retries=2, retry_delay=0.01, timeout=1) as client,
        ):
            results.append(statuses_of(client))
    assert results[0] == results[1]
