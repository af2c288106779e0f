"""How long a call of a client takes: whatever it waits for, it ends in time, and says what it waited for."""

import asyncio
import logging
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from typing import Any

import pytest

import headgate
import headgate.testing
from headgate.testing import MockResponse
from support.loops import HELD, Run, until
from support.run import serving, wait_for

IN_TIME_S = 8.0
"""More than any call here takes that ends in time, and less than what it waits for."""
GIBIBYTE = 1 << 30


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@contextmanager
def in_time() -> Iterator[None]:
    """Checks that the block takes little time."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < IN_TIME_S


def held(client: headgate.Client, stack: ExitStack) -> None:
    """Lets another thread make a call that takes as long as the client is open."""
    pool = stack.enter_context(ThreadPoolExecutor(1))

    def call() -> None:
        with pytest.raises(headgate.RequestError):
            client.get(HELD, total_timeout=None, timeout=None)

    stack.callback(pool.submit(call).result, 20)
    stack.callback(client.close)
    wait_for(lambda: client.statistics().in_flight == 1)


# -- what a call waits for


def at_a_pause(server: str, stack: ExitStack) -> headgate.Client:
    del server
    mocked = stack.enter_context(headgate.testing.mock())
    mocked.get("/busy").respond(429, headers={"Retry-After": "60"})
    client = stack.enter_context(headgate.Client(base_url="http://a.example", retries=0))
    assert 429 == client.get("/busy").status_code
    return client


def at_a_rate(server: str, stack: ExitStack) -> headgate.Client:
    client = stack.enter_context(headgate.Client(base_url=server, rate="1/m"))
    assert client.get("/1").is_success
    return client


def at_the_rate_of_the_host(server: str, stack: ExitStack) -> headgate.Client:
    client = stack.enter_context(headgate.Client(base_url=server, rate_per_host="1/m"))
    assert client.get("/1").is_success
    return client


def at_the_concurrency(server: str, stack: ExitStack) -> headgate.Client:
    client = headgate.Client(base_url=server, concurrency=1)
    held(client, stack)
    return client


def at_the_concurrency_of_the_host(server: str, stack: ExitStack) -> headgate.Client:
    client = headgate.Client(base_url=server, concurrency_per_host=1)
    held(client, stack)
    return client


def at_a_server_that_holds_the_connection(_: str, stack: ExitStack) -> headgate.Client:
    # Nothing accepts its connections, beyond the first few, and nothing responds.
    listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    return stack.enter_context(headgate.Client(base_url=f"http://127.0.0.1:{listening.getsockname()[1]}", timeout=None))


WAITS: list[tuple[Callable[[str, ExitStack], headgate.Client], str]] = [
    (at_a_pause, "the host has requested a pause that ends after the total timeout"),
    (at_a_rate, r"total_timeout=0\.2 passed while it waited for its turn, by rate='1/m'"),
    (
        at_the_rate_of_the_host,
        r"total_timeout=0\.2 passed while it waited for its turn at the host \(rate_per_host\), ",
    ),
    (at_the_concurrency, "waited for a free slot: another request is in flight, and concurrency=1"),
    (at_the_concurrency_of_the_host, r"waited for a free slot of the host \(concurrency_per_host, "),
    (at_a_server_that_holds_the_connection, "no response came before the total timeout passed"),
]


@pytest.mark.parametrize(("waits_at", "message"), WAITS)
def test_a_call_ends_at_its_total_timeout_and_says_what_it_waited_for(
    server: str, waits_at: Callable[[str, ExitStack], headgate.Client], message: str
) -> None:
    with ExitStack() as stack:
        client = waits_at(server, stack)
        with in_time():
            with pytest.raises(headgate.TotalTimeout, match=message) as raised:
                client.get("/2", total_timeout=timedelta(seconds=0.2))
            assert raised.value.url.endswith("/2")
            assert raised.value.request is not None
            assert ("GET", raised.value.url) == (raised.value.request.method, raised.value.request.url)
            with pytest.raises(headgate.TotalTimeout, match=message):
                stack.enter_context(client.stream("GET", "/2", total_timeout=0.2))


async def called(client: headgate.AsyncClient, options: dict[str, Any], *, is_streamed: bool) -> None:
    if is_streamed:
        async with client.stream("GET", "/1", **options):
            pytest.fail("there is no response")
    await client.get("/1", **options)


@pytest.mark.parametrize("kind", ["client", "call"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_same_holds_in_a_loop(server: str, run: Run, kind: str, is_streamed: bool) -> None:
    of_client: dict[str, Any]
    of_client, of_call = ({"total_timeout": 0.2}, {}) if kind == "client" else ({}, {"total_timeout": 0.2})

    async def main() -> None:
        async with headgate.AsyncClient(base_url=server, concurrency=1, **of_client) as client:
            first = asyncio.create_task(client.get(HELD, timeout=None, total_timeout=None))
            await until(lambda: client.statistics().in_flight == 1)
            with in_time(), pytest.raises(headgate.TotalTimeout, match=r"a free slot: .*concurrency=1"):
                await called(client, of_call, is_streamed=is_streamed)
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first
            # The row that timed out is gone, and the slot of the other one is free.
            assert (await client.get("/1", total_timeout=20)).is_success
            await until(lambda: client.statistics().in_flight == 0)

    run(main())


def test_a_call_in_a_loop_ends_while_it_waits_for_a_response(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server, retries=0) as client:
            with (
                in_time(),
                pytest.raises(headgate.TotalTimeout, match="no response came before the total timeout") as raised,
            ):
                await client.get(HELD, total_timeout=0.2)
            assert 1 == raised.value.attempts

    run(main())


def test_the_total_timeout_covers_all_attempts(server: str) -> None:
    with headgate.Client(base_url=server, retries=1000, retry_delay=0.01, total_timeout=0.3) as client, in_time():
        with pytest.raises(headgate.RequestTimeout):
            client.get(HELD, timeout=0.1)
        assert 503 == client.get("/status/503").status_code


def test_a_stream_has_its_total_timeout_until_its_headers(server: str) -> None:
    with (
        headgate.Client(base_url=server) as client,
        client.stream("GET", "/drip/3?interval=0.3", total_timeout=0.5) as response,
    ):
        assert response.read()


def test_without_timeouts_a_call_takes_as_long_as_it_takes(server: str) -> None:
    with headgate.Client(base_url=server, timeout=0.05, connect_timeout=None, total_timeout=0.05, retries=0) as client:
        with pytest.raises(headgate.RequestTimeout):
            client.get("/delay/0.5")
        assert client.get("/delay/0.5", timeout=None, total_timeout=None).is_success
    with headgate.Client(base_url=server, timeout=None, total_timeout=None, pool_timeout=None) as client:
        assert client.get("/delay/0.1").is_success


# -- slots


@pytest.mark.parametrize("waits_at", [at_the_concurrency, at_the_concurrency_of_the_host])
def test_a_call_without_a_slot_ends_at_its_pool_timeout(
    server: str, waits_at: Callable[[str, ExitStack], headgate.Client]
) -> None:
    with ExitStack() as stack:
        client = waits_at(server, stack)
        with in_time():
            with pytest.raises(
                headgate.PoolTimeout, match=r"pool_timeout=0\.1 passed while it waited for a free slot"
            ) as raised:
                client.get("/1", pool_timeout=0.1)
            assert (0, "pool_timeout") == (raised.value.attempts, raised.value.kind)


def test_the_pool_timeout_is_for_slots_alone(server: str) -> None:
    with headgate.Client(base_url=server, pool_timeout=0.1, rate="10/s", burst=1) as client:
        assert client.get("/delay/0.5").is_success
        with ThreadPoolExecutor(8) as pool:
            assert all(response.is_success for response in pool.map(client.get, ["/1"] * 8))


def test_a_body_that_was_read_holds_no_slot(server: str) -> None:
    with headgate.Client(base_url=server, concurrency=1) as client, client.stream("GET", "/1") as response:
        with pytest.raises(headgate.PoolTimeout, match="this thread has 1 stream open, and the client makes 1 request"):
            client.get("/2")
        response.read()
        assert client.get("/2").is_success


# -- pauses


def test_a_call_waits_for_a_pause_of_a_minute_and_gets_the_response_that_requests_a_longer_one() -> None:
    with headgate.testing.mock(virtual_clock=True) as mocked:
        busy = [headgate.testing.MockResponse(429, headers={"Retry-After": seconds}) for seconds in ("61", "59")]
        longer = mocked.get("/longer").respond_in_turn([busy[0], 200])
        shorter = mocked.get("/shorter").respond_in_turn([busy[1], 200])
        with headgate.Client() as client:
            assert 429 == client.get("http://a.example/longer").status_code
            with pytest.raises(headgate.HostDown, match="the host requested too long a pause"):
                client.get("http://a.example/shorter")
            assert 200 == client.get("http://b.example/shorter").status_code
        assert (1, 2) == (longer.call_count, shorter.call_count)


# -- options of a call


def test_a_call_has_options_of_its_own(server: str) -> None:
    with headgate.Client(base_url=server, retries=0, retry_delay=0) as client:
        assert 3 == client.get("/status/503", retries=2).attempts
        with pytest.raises(headgate.BodyTooLarge, match=r"; raise max_body_size, of the client or of the call\)"):
            client.get("/bytes/1001", max_body_size=1000)
        assert 1001 == len(client.get("/bytes/1001", max_body_size=1001).content)
        with pytest.raises(headgate.TooManyRedirects):
            client.get("/redirect/2", max_redirects=1)
        assert client.get("/redirect/2", max_redirects=2).is_success
    with headgate.Client(base_url=server, max_body_size=1000, max_redirects=1, retries=5) as client:
        assert 100_000 == len(client.get("/bytes/100000", max_body_size=100_000).content)
        assert client.get("/redirect/2", max_redirects=2).is_success
        assert 1 == client.get("/status/503", retries=0).attempts


def test_each_of_many_requests_has_options_of_its_own(server: str) -> None:
    requests: list[headgate.Request | str] = [
        headgate.Request("/status/503", retries=1),
        headgate.Request("/bytes/2000", max_body_size=1000),
        headgate.Request(HELD, total_timeout=0.1),
        headgate.Request(HELD, timeout=0.1),
        headgate.Request("/redirect/2", max_redirects=1),
        "/status/503",
    ]
    with headgate.Client(base_url=server, retries=0, retry_delay=0) as client:
        outcomes = list(client.fetch_many(requests, ordered=True))
    assert [2, 1, 1, 1, 1, 1] == [outcome.attempts for outcome in outcomes]
    kinds = [outcome.error and outcome.error.kind for outcome in outcomes]
    assert [None, "body_too_large", "total_timeout", "timeout", "too_many_redirects", None] == kinds


def test_many_requests_have_a_total_timeout_only_if_it_is_given(server: str) -> None:
    with headgate.Client(base_url=server, retries=0) as client:
        assert [True] == [outcome.unwrap().is_success for outcome in client.fetch_many(["/delay/0.3"])]
    with headgate.Client(base_url=server, retries=0, total_timeout=0.1) as client:
        errors = [outcome.error for outcome in client.fetch_many(["/delay/3600"])]
        assert isinstance(errors[0], headgate.TotalTimeout)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout": 0}, "timeout must be seconds above 0"),
        ({"total_timeout": -1}, "total_timeout must be seconds above 0"),
        ({"pool_timeout": "5"}, "pool_timeout must be a number of seconds, not str"),
        ({"connect_timeout": True}, "connect_timeout must be a number of seconds, not bool"),
        ({"retries": -1}, "retries must be at least 0, not -1"),
        ({"retries": None}, "retries must be an int, not None"),
        ({"max_body_size": 1.5}, "max_body_size must be an int, not float"),
        ({"max_redirects": 0}, "max_redirects must be at least 1, not 0"),
        ({"redirects": None}, "redirects must be text such as 'none', not None"),
    ],
)
def test_an_invalid_option_of_a_call_is_refused(server: str, options: dict[str, Any], message: str) -> None:
    with headgate.Client(base_url=server) as client, pytest.raises(headgate.InvalidRequest, match=re.escape(message)):
        client.get("/1", **options)


def test_client_means_as_the_client_does(server: str) -> None:
    as_the_client: Any = str(b"client", "ascii")  # not the same object
    with headgate.Client(base_url=server, timeout=0.1, retries=0) as client, pytest.raises(headgate.ReadTimeout):
        client.get(HELD, timeout=as_the_client, retries=as_the_client, redirects=as_the_client)


# -- nothing is left behind


def test_calls_that_time_out_leave_nothing_behind(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server, concurrency=1) as client:
            first = asyncio.create_task(client.get(HELD, timeout=None, total_timeout=None))
            await until(lambda: client.statistics().in_flight == 1)
            calls = (client.get("/1", total_timeout=0.05) for _ in range(10_000))
            errors = await asyncio.gather(*calls, return_exceptions=True)
            assert {headgate.TotalTimeout} == {type(error) for error in errors}
            first.cancel()
            await asyncio.wait([first])
            assert (await client.get("/1")).is_success
            await until(lambda: client.statistics().rows == 10_002)
            assert 0 == client.statistics().in_flight

    run(main())


def test_calls_of_threads_that_time_out_leave_nothing_behind(server: str) -> None:
    with ExitStack() as stack:
        client = at_the_concurrency(server, stack)
        before = threading.active_count()

        def time_out(_: int) -> None:
            with pytest.raises(headgate.TotalTimeout):
                client.get("/1", total_timeout=0.01)

        with ThreadPoolExecutor(50) as pool:
            list(pool.map(time_out, range(1000)))
        wait_for(lambda: client.statistics().rows == 1000)
        assert before == threading.active_count()


# -- logging


def test_a_long_wait_is_logged_once(server: str, caplog: pytest.LogCaptureFixture) -> None:
    with ExitStack() as stack, caplog.at_level(logging.WARNING, logger="headgate"):
        client = at_the_concurrency(server, stack)
        with pytest.raises(headgate.TotalTimeout):
            client.get("/2", total_timeout=5.4)
        assert [
            (f"GET {server}/2 waits for a free slot: another request is in flight, and concurrency=1", "WARNING")
        ] == [(record.getMessage(), record.levelname) for record in caplog.records]


@pytest.mark.parametrize(("served_s", "paused_s", "is_logged"), [(5.5, 8, True), (4.9, 1, False)])
def test_each_wait_of_a_call_is_measured_from_its_own_begin(
    served_s: float, paused_s: int, is_logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        headgate.testing.mock(virtual_clock=True) as mocked,
        caplog.at_level(logging.WARNING, logger="headgate"),
        headgate.Client(base_url="http://a.example", retry_delay=0) as client,
    ):
        busy = MockResponse(503, headers={"Retry-After": str(paused_s)}, delay=served_s)
        mocked.get("/").respond_in_turn([busy, MockResponse(200, delay=4)])
        assert 200 == client.get("/").status_code
    assert is_logged == bool(caplog.records)


def test_a_long_wait_is_logged_in_a_loop(server: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server, rate="1/m", total_timeout=5.4) as client:
            await client.get("/1")
            with pytest.raises(headgate.TotalTimeout):
                await client.get("/2")

    with caplog.at_level(logging.WARNING, logger="headgate"):
        asyncio.run(main())
    assert [f"GET {server}/2 waits for its turn, by rate='1/m'"] == [record.getMessage() for record in caplog.records]


def test_a_lookup_that_takes_longer_than_the_call_may_is_a_timeout_of_the_call() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with headgate.Client(dns_server=address) as client, in_time():
            with pytest.raises(headgate.TotalTimeout, match="the hostname was not resolved before the total timeout"):
                client.get("http://slow.example/", total_timeout=0.2)
            with pytest.raises(headgate.DnsError):
                client.get("http://slow.example/", connect_timeout=0.2, retries=0)
