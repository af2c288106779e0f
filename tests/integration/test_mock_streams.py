"""Responses of a mock that come piece by piece, and functions that are coroutines."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from functools import partial

import pytest

import headgate
import headgate.testing
from headgate.testing import MockRequest, MockResponse, MockServer

URL = "https://api.example.com/events"


@pytest.fixture
def client() -> Iterator[headgate.Client]:
    with headgate.Client(retries=0) as client:
        yield client


def test_a_list_of_pieces_serves_any_number_of_requests(mock: MockServer, client: headgate.Client) -> None:
    mock.get(URL, content=[b"one ", b"", b"two"])
    for _ in range(2):
        response = client.get(URL)
        assert (b"one two", "chunked") == (response.content, response.headers["transfer-encoding"])


def test_pieces_have_the_length_that_a_header_says(mock: MockServer, client: headgate.Client) -> None:
    mock.get(URL).respond(content=[b"one ", b"two"], headers={"Content-Length": "7"})
    response = client.get(URL)
    assert (b"one two", False) == (response.content, "transfer-encoding" in response.headers)


def test_a_streamed_client_gets_each_piece_before_the_next_is_made(mock: MockServer, client: headgate.Client) -> None:
    wanted = threading.Semaphore(0)

    def pieces() -> Iterator[bytes]:
        for number in range(3):
            wanted.acquire()
            yield b"%d" % number

    mock.get(URL, response=lambda _: MockResponse(content=pieces()))
    with client.stream("GET", URL) as response:
        arriving = response.iter_bytes()
        for number in range(3):
            wanted.release()
            assert b"%d" % number == next(arriving)
        assert [] == list(arriving)


def test_pauses_between_pieces_are_real(mock: MockServer, client: headgate.Client) -> None:
    for pause in (0.05, timedelta(milliseconds=50)):
        mock.get(URL).respond(content=[b"a", b"b", b"c"], pause=pause)
        begun = time.monotonic()
        assert b"abc" == client.get(URL).content
        assert 0.1 <= time.monotonic() - begun


def test_an_idle_timeout_ends_a_body_that_pauses(mock: MockServer) -> None:
    mock.get(URL).respond(content=[b"a", b"b"], pause=3600)
    with (
        headgate.Client(retries=0, idle_timeout=0.05) as client,
        pytest.raises(headgate.ReadTimeout),
    ):
        client.get(URL)


def test_a_generator_is_closed_when_the_client_goes_away(mock: MockServer, client: headgate.Client) -> None:
    closed = threading.Event()

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"x" * 1000
        finally:
            closed.set()

    mock.get(URL, response=lambda _: MockResponse(content=endless()))
    with client.stream("GET", URL) as response:
        assert b"x" == next(response.iter_bytes())[:1]
    assert closed.wait(30)


def test_an_async_generator_is_closed_where_it_waits(mock: MockServer, client: headgate.Client) -> None:
    closed = threading.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.sleep(3600)
        finally:
            closed.set()

    mock.get(URL, response=lambda _: MockResponse(content=endless()))
    with client.stream("GET", URL) as response:
        assert b"first" == next(response.iter_bytes())
    assert closed.wait(30)


def test_the_mock_waits_while_the_client_does_not_read(mock: MockServer, client: headgate.Client) -> None:
    made = 0
    has_made = threading.Event()

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            has_made.set()
            yield b"x" * 65536

    mock.get(URL, response=lambda _: MockResponse(content=pieces()))
    with client.stream("GET", URL) as response:
        assert has_made.wait(30)
        before = -1
        while before != made:
            before = made
            time.sleep(0.2)
        # 128 KiB in the client, 64 KiB in the loop, and what a socket buffers.
        assert made < 50
        assert 65536 * 1000 == sum(map(len, response.iter_bytes()))


def test_a_body_may_be_cut_within_a_piece(mock: MockServer, client: headgate.Client) -> None:
    mock.get(URL).respond(content=[b"abc", b"def"], cut_after=4)
    with client.stream("GET", URL) as response:
        arriving = response.iter_bytes()
        found = next(arriving)
        while len(found) < 4:
            found += next(arriving)
        with pytest.raises(headgate.ConnectionClosed):
            next(arriving)
    assert b"abcd" == found


def test_an_error_that_the_pieces_raise_is_the_error_of_the_request(mock: MockServer, client: headgate.Client) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"abc"
        raise headgate.DecodeError("as it was told")

    mock.get(URL, response=lambda _: MockResponse(content=pieces()))
    with pytest.raises(headgate.DecodeError, match="as it was told"):
        client.get(URL)
    with client.stream("GET", URL) as response, pytest.raises(headgate.DecodeError, match="as it was told"):
        response.read()


@pytest.mark.parametrize("content", [["text"], iter([1])])
def test_pieces_that_are_no_bytes_are_an_error_of_the_block(content: object) -> None:
    mock = headgate.testing.mock()
    mock.get(URL, content=content)  # type: ignore[arg-type]
    with (
        pytest.raises(AssertionError, match="content must yield bytes, not"),
        mock,
        headgate.Client() as client,
    ):
        list(client.fetch_many([URL]))


def test_an_iterator_serves_one_request(client: headgate.Client) -> None:
    with headgate.testing.mock(assert_all_mocked=False) as mock:
        mock.get(URL, content=iter([b"once"]))
        assert "once" == client.get(URL).text
        with pytest.raises(headgate.InvalidRequest, match="an iterator, which an earlier request has read"):
            client.get(URL)
    with pytest.raises(AssertionError, match="an iterator, which an earlier request has read"):
        mock.assert_all_mocked()


def test_no_piece_is_made_for_a_head_request(mock: MockServer, client: headgate.Client) -> None:
    mock.head(URL, content=iter([b"never"]))
    assert (b"", b"") == (client.head(URL).content, client.head(URL).content)


@pytest.mark.parametrize(
    ("given", "message"),
    [({"text": "a", "pause": 1}, "pause is the time between pieces"), ({"content": 5}, "iterable of bytes, not int")],
)
def test_arguments_that_make_no_pieces_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        MockResponse(**given)  # type: ignore[arg-type]


def test_a_function_may_be_a_coroutine(mock: MockServer, client: headgate.Client) -> None:
    async def respond(request: MockRequest) -> dict[str, str]:
        await asyncio.sleep(0.001)
        return {"path": request.path}

    class Responder:
        async def __call__(self, request: MockRequest) -> str:
            await asyncio.sleep(0)
            return request.path

    mock.get("/function").gives(respond)
    mock.get("/lambda").gives(partial(respond))
    mock.get("/object").gives(Responder())
    assert {"path": "/function"} == client.get("http://a.example/function").json()
    assert {"path": "/lambda"} == client.get("http://a.example/lambda").json()
    assert "/object" == client.get("http://a.example/object").text


def test_coroutines_wait_for_each_other_however_many(mock: MockServer) -> None:
    entered, all_entered = set(), asyncio.Event()

    async def together(request: MockRequest) -> int:
        entered.add(request.host)
        if len(entered) == 100:
            all_entered.set()
        await all_entered.wait()
        return 204

    mock.get("/").gives(together)
    with headgate.Client() as client:
        outcomes = client.fetch_many(f"http://{n}.example/" for n in range(100))
        assert {204} == {outcome.unwrap().status_code for outcome in outcomes}


def test_errors_of_a_coroutine_are_those_of_a_function() -> None:
    async def fail(request: MockRequest) -> int:
        await asyncio.sleep(0)
        if request.path == "/tls":
            raise headgate.TlsError("expired")
        raise ZeroDivisionError("by zero")

    with headgate.testing.mock(fail, assert_all_mocked=False) as mock, headgate.Client(retries=0) as client:
        with pytest.raises(headgate.TlsError, match="expired"):
            client.get("https://a.example/tls")
        with pytest.raises(headgate.InvalidRequest, match="by zero"):
            client.get("https://a.example/other")
    with pytest.raises(AssertionError, match="ZeroDivisionError: by zero"):
        mock.assert_all_mocked()


def test_a_coroutine_is_cancelled_when_the_client_goes_away(mock: MockServer, client: headgate.Client) -> None:
    cancelled = threading.Event()

    async def hold(_: MockRequest) -> int:
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()
        return 200

    route = mock.get(URL).gives(hold)
    with pytest.raises(headgate.ReadTimeout):
        client.get(URL, timeout=0.05)
    assert cancelled.wait(30)
    assert 1 == route.call_count


def test_a_coroutine_is_cancelled_at_the_end_of_the_block(client: headgate.Client) -> None:
    entered, cancelled = threading.Event(), threading.Event()

    async def hold(_: MockRequest) -> int:
        entered.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()
        return 200

    with headgate.testing.mock(hold):
        threading.Thread(target=lambda: list(client.fetch_many([URL]))).start()
        assert entered.wait(30)
    assert cancelled.is_set()
