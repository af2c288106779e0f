"""The block of a mock: errors at its end, mocks within it, forks, and the end of a program."""

import gc
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headgate
import headgate.testing
from headgate.testing import MockRequest
from support.run import printed_by

URL = "https://api.example.com/users/1"
FAST = {"retry_delay": 0.001}


def test_a_request_without_a_response_fails_and_so_does_the_block() -> None:
    mock = headgate.testing.mock()
    mock.get(URL, json=1)
    failed = None

    def ask() -> None:
        nonlocal failed
        with mock, headgate.Client() as client:
            assert 1 == client.get(URL).json()
            with pytest.raises(headgate.InvalidRequest) as failed:
                client.post(URL, json={})

    with pytest.raises(AssertionError) as caught:
        ask()
    assert failed is not None
    assert failed.value.attempts == 1
    assert f"the mock has no response for this request (POST {URL}; its routes: GET {URL} (called once))" in str(
        failed.value
    )
    assert f"the mock had no response for 1 request:\n  POST {URL}\nits routes:\n  GET {URL} (called once)" == str(
        caught.value
    )
    assert [None] == [call.response for call in mock.calls if call.request.method == "POST"]


def test_responses_can_be_used_up() -> None:
    with headgate.testing.mock(assert_all_mocked=False) as mock, headgate.Client() as client:
        mock.get(URL).respond_in_turn(["one", "two"])
        assert ["one", "two"] == [client.get(URL).text for _ in range(2)]
        with pytest.raises(headgate.InvalidRequest, match=re.escape("called 2 times")):
            client.get(URL)


def test_a_route_that_was_not_called_fails_the_block() -> None:
    mock = headgate.testing.mock()
    mock.get("/a")
    with pytest.raises(AssertionError, match=r"the mock was not asked for:\n  GET /a \(never called\)"), mock:
        pass


def test_assertions_that_are_switched_off_do_not_raise() -> None:
    with headgate.testing.mock(assert_all_called=False, assert_all_mocked=False) as mock, headgate.Client() as client:
        mock.get("/a")
        with pytest.raises(headgate.InvalidRequest):
            client.get(URL)
    with pytest.raises(AssertionError):
        mock.assert_all_mocked()
    mock.reset()
    mock.assert_all_mocked()
    assert 0 == mock.call_count


def test_the_error_of_the_block_is_the_one_that_is_raised() -> None:
    mock = headgate.testing.mock()
    mock.get("/a")
    with pytest.raises(KeyError), mock:
        raise KeyError
    # The mock has ended: the request goes to the network.
    with headgate.Client(retries=0) as client, pytest.raises(headgate.ConnectError):
        client.get("http://127.0.0.1:1/a")


def test_of_several_mocks_the_inner_one_responds(client: headgate.Client) -> None:
    with headgate.testing.mock() as outer:
        outer.get(URL, text="outer")
        assert "outer" == client.get(URL).text
        with headgate.testing.mock() as inner:
            inner.get(URL, text="inner")
            assert "inner" == client.get(URL).text
        assert "outer" == client.get(URL).text
    assert (2, 1) == (outer.call_count, inner.call_count)


def test_a_mock_begins_once_at_a_time_and_may_begin_again(client: headgate.Client) -> None:
    mock = headgate.testing.mock()
    route = mock.get(URL, text="a")
    for _ in range(2):
        with mock:
            assert "a" == client.get(URL).text
            with pytest.raises(RuntimeError, match="this mock has begun"), mock:
                pass
    assert 2 == route.call_count


def test_requests_in_flight_at_the_end_of_a_mock_fail(client: headgate.Client) -> None:
    arrived, over = threading.Event(), threading.Event()

    def hold(_: MockRequest) -> int:
        arrived.set()
        over.wait()
        return 200

    with ThreadPoolExecutor(1) as threads:
        with headgate.testing.mock(assert_all_called=False) as mock:
            mock.get(URL).gives(hold)
            held = threads.submit(client.get, URL)
            arrived.wait()
        with pytest.raises(headgate.ConnectionClosed, match="the mock has ended"):
            held.result()
    over.set()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_nothing_is_left_open() -> None:
    def once() -> None:
        with headgate.testing.mock() as mock, headgate.Client() as client:
            mock.get(prefix="http://").respond(text="a")
            assert 50 == sum(1 for _ in client.fetch_many(f"http://{n}.example/" for n in range(50)))

    once()
    gc.collect()
    before, threads = open_files(), threading.active_count()
    for _ in range(3):
        once()
    gc.collect()
    assert (before, threads) == (open_files(), threading.active_count())


def test_a_request_in_a_fork_fails_because_it_has_no_mock(tmp_path: Path) -> None:
    program = """
import warnings; warnings.simplefilter("ignore")
import os, headgate, headgate.testing
with headgate.testing.mock() as mock:
    mock.get("http://a.example/", text="mocked")
    client = headgate.Client()
    assert "mocked" == client.get("http://a.example/").text
    child = os.fork()
    if child == 0:
        try:
            client.get("http://a.example/")
        except headgate.InvalidRequest as error:
            assert "this is a fork" in str(error), error
            os._exit(7)
    assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert "mocked" == client.get("http://a.example/").text
print("well")
"""
    assert "well\n" == printed_by(program, tmp_path)


def test_a_program_may_end_within_a_block(tmp_path: Path) -> None:
    program = """
import warnings; warnings.filterwarnings("ignore", "this headgate is a debug build")
import headgate, headgate.testing
mock = headgate.testing.mock().__enter__()
mock.get("http://a.example/", text="mocked")
print(headgate.Client().get("http://a.example/").text)
"""
    assert "mocked\n" == printed_by(program, tmp_path)
