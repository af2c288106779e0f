"""`headgate.testing`: responses in place of the network."""

import asyncio
import gzip
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pyarrow as pa
import pytest

import headgate
import headgate.testing
from headgate.client._errors import CLASS_OF
from headgate.testing import MockRequest, MockResponse, MockServer
from support.results import table

URL = "https://api.example.com/users/1"
FAST = {"retry_delay": 0.001}


def test_a_route_responds_and_records_its_requests(mock: MockServer, client: headgate.Client) -> None:
    route = mock.post("https://api.example.com/users/{id}", status=201, json={"id": 1})
    response = client.post(URL, params={"page": 1}, json={"name": "a"}, headers={"X-Trace": "7"})

    assert (201, {"id": 1}, "HTTP/1.1") == (response.status_code, response.json(), response.http_version)
    assert "application/json" == response.headers["Content-Type"]
    assert route.called
    assert 1 == route.call_count == mock.call_count
    request = route.calls[-1].request
    assert ("POST", URL + "?page=1", {"name": "a"}) == (request.method, request.url, request.json())
    assert ("7", "api.example.com", {"id": "1"}) == (request.headers["x-trace"], request.host, request.path_params)
    sent = route.calls[-1].response
    assert sent is not None
    assert {"id": 1} == sent.json()


def test_a_mock_responds_to_a_client_that_was_made_before_and_the_server_does_afterwards(server: str) -> None:
    with headgate.Client() as client:
        assert "Hello, World!" == client.get(f"{server}/hello").text
        with headgate.testing.mock() as mock:
            mock.get(f"{server}/hello", text="mocked")
            assert "mocked" == client.get(f"{server}/hello").text
        assert "Hello, World!" == client.get(f"{server}/hello").text


def test_a_client_made_within_a_mock_reaches_the_server_afterwards(server: str) -> None:
    with headgate.testing.mock() as mock:
        mock.get(f"{server}/hello", text="mocked")
        client = headgate.Client()
        assert "mocked" == client.get(f"{server}/hello").text
    with client:
        assert "Hello, World!" == client.get(f"{server}/hello").text


def test_coroutines_get_responses_and_earlier_requests_are_still_in_flight(server: str) -> None:
    async def texts() -> tuple[str, str, str]:
        async with headgate.AsyncClient() as client:
            held = asyncio.create_task(client.get(f"{server}/delay/0.2"))
            await asyncio.sleep(0)
            async with headgate.testing.mock() as mock:
                mock.get(URL, text="mocked")
                first = (await client.get(URL)).text
            return first, (await client.get(f"{server}/hello")).text, (await held).text

    assert ("mocked", "Hello, World!", "Hello, World!") == asyncio.run(texts())


def test_retries_are_those_of_the_engine(mock: MockServer, client: headgate.Client) -> None:
    route = mock.get("/flaky").respond_in_turn([503, headgate.ConnectTimeout, (200, {"ok": True})])
    response = client.get("https://a.example/flaky")
    assert ({"ok": True}, 3, 3) == (response.json(), response.attempts, route.call_count)
    assert [503, None, 200] == [call.response.status if call.response else None for call in route.calls]


def test_responses_may_come_from_an_endless_iterator(mock: MockServer, client: headgate.Client) -> None:
    mock.get("/n").respond_in_turn({"n": n} for n in range(10**9))
    assert [0, 1, 2] == [client.get("http://a.example/n").json()["n"] for _ in range(3)]


def test_redirects_and_content_encodings_are_those_of_the_engine(mock: MockServer, client: headgate.Client) -> None:
    mock.get("https://a.example/").respond(302, headers={"Location": "http://b.example/end"})
    mock.get("http://b.example/end").respond(content=gzip.compress(b"packed"), headers={"Content-Encoding": "gzip"})
    response = client.get("https://a.example/")
    assert ("packed", "http://b.example/end") == (response.text, response.url)
    assert ["https://a.example/"] == [hop.url for hop in response.history]


@pytest.mark.parametrize("kind", sorted(CLASS_OF))
def test_each_kind_of_error_can_be_had(mock: MockServer, kind: str) -> None:
    mock.get(URL, error=CLASS_OF[kind]("as it was told"))
    with headgate.Client(retries=0) as client, pytest.raises(CLASS_OF[kind], match="as it was told") as caught:
        client.get(URL)
    assert (URL, 1) == (caught.value.url, caught.value.attempts)


@pytest.mark.parametrize("error", [headgate.RequestTimeout, headgate.RequestError, headgate.StatusError])
def test_a_class_without_an_error_kind_is_refused(mock: MockServer, error: type[headgate.RequestError]) -> None:
    with pytest.raises(TypeError, match=f"such as headgate.ConnectError, not {error.__name__}"):
        mock.get(URL, error=error)


def test_a_status_error_of_a_function_is_raised_at_the_end_of_the_block(client: headgate.Client) -> None:
    server = headgate.testing.mock()
    server.get("https://b.example/", status=404)
    server.get(URL, response=lambda _: headgate.get("https://b.example/").raise_for_status().text)
    with pytest.raises(AssertionError, match="StatusError: 404 Not Found"), server:
        list(client.fetch_many([URL]))


def test_an_error_is_retried_as_one_of_its_kind_is(mock: MockServer, client: headgate.Client) -> None:
    refused, closed = mock.post("/refused", error="connect"), mock.post("/connection_closed", error="connection_closed")
    for path, kind in (("refused", headgate.ConnectError), ("connection_closed", headgate.ConnectionClosed)):
        with pytest.raises(kind):
            client.post(f"http://a.example/{path}")
    # A POST that the server may have received is not resent.
    assert (4, 1) == (refused.call_count, closed.call_count)


def test_a_connection_may_end_in_the_middle_of_a_body(mock: MockServer) -> None:
    mock.get(URL).respond(content=b"abcdef", cut_after=3)
    with headgate.Client(retries=0) as client, pytest.raises(headgate.ConnectionClosed, match="middle of the body"):
        client.get(URL)


def test_timeouts_are_real(mock: MockServer) -> None:
    mock.get(URL).respond(delay=3600)
    with headgate.Client(retries=0) as client, pytest.raises(headgate.ReadTimeout):
        client.get(URL, timeout=0.01)


def test_a_delayed_response_arrives(mock: MockServer, client: headgate.Client) -> None:
    for delay in (0.001, timedelta(milliseconds=1)):
        mock.get(URL).respond(text="late", delay=delay)
        assert "late" == client.get(URL).text
    assert 0.001 == MockResponse(delay=timedelta(milliseconds=1)).delay


def test_a_response_may_be_computed(mock: MockServer, client: headgate.Client) -> None:
    def double(request: MockRequest) -> MockResponse:
        return MockResponse(json={"twice": int(request.path_params["n"]) * 2}, headers={"X-Query": request.query})

    mock.get("/double/{n}", response=double)
    response = client.get("https://a.example/double/21?why")
    assert ({"twice": 42}, "why") == (response.json(), response.headers["x-query"])


def test_computed_responses_may_wait_for_each_other(mock: MockServer, client: headgate.Client) -> None:
    together = threading.Barrier(32)

    def wait(_: MockRequest) -> int:
        together.wait()
        return 204

    mock.get(prefix="http://a.example/").gives(wait)
    outcomes = client.fetch_many(f"http://a.example/{n}" for n in range(32))
    assert {204} == {outcome.unwrap().status_code for outcome in outcomes}


def test_limits_are_those_of_the_engine(mock: MockServer) -> None:
    lock, now, most = threading.Lock(), 0, 0

    def count(_: MockRequest) -> int:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        with lock:
            now -= 1
        return 200

    mock.get(prefix="http://").gives(count)
    with headgate.Client(concurrency=2) as client:
        assert 200 == sum(1 for _ in client.fetch_many(f"http://{n % 3}.example/" for n in range(200)))
    assert most in {1, 2}


def test_a_request_that_a_function_leaves_goes_to_the_next_route_and_last_to_the_handler() -> None:
    def handler(request: MockRequest) -> str | None:
        return "handler" if request.path == "/c" else None

    with (
        headgate.testing.mock(handler, base_url="http://a.example", assert_all_mocked=False) as mock,
        headgate.Client() as client,
    ):
        mock.get(prefix="/").gives(lambda request: "first" if request.path == "/a" else None)
        mock.get("/b", text="second")
        assert ["first", "second", "handler"] == [client.get(f"http://a.example/{path}").text for path in "abc"]
        with pytest.raises(headgate.InvalidRequest):
            client.get("http://a.example/d")
        assert (1, 1) == tuple(route.call_count for route in mock.routes)


@pytest.mark.parametrize("error", [headgate.ReadTimeout, headgate.ReadTimeout()])
def test_an_error_that_a_function_raises_without_a_message_is_one_that_it_returns(
    mock: MockServer, error: type[headgate.ReadTimeout] | headgate.ReadTimeout
) -> None:
    def late(_: MockRequest) -> int:
        raise error

    mock.get("/raised", response=late)
    mock.get("/returned", response=lambda _: error)
    with headgate.Client(retries=0) as client:
        for path in ("raised", "returned"):
            with pytest.raises(headgate.ReadTimeout, match="the mock says so"):
                client.get(f"http://a.example/{path}")


def test_a_function_may_raise_an_error_of_headgate(mock: MockServer) -> None:
    def raise_it(_: MockRequest) -> MockResponse:
        raise headgate.TlsError("expired")

    mock.get(URL).gives(raise_it)
    with headgate.Client() as client, pytest.raises(headgate.TlsError, match="expired"):
        client.get(URL)


@pytest.mark.parametrize("error", [ZeroDivisionError("by zero"), pytest.fail.Exception("no")])
def test_another_error_of_a_function_is_raised_at_the_end(error: BaseException) -> None:
    def raise_it(_: MockRequest) -> MockResponse:
        raise error

    with (
        pytest.raises(AssertionError, match="could not be computed") as caught,
        headgate.testing.mock(raise_it),
        headgate.Client() as client,
        pytest.raises(headgate.InvalidRequest, match=str(error)),
    ):
        client.get(URL)
    assert error is caught.value.__cause__


def test_an_error_of_a_generator_is_raised_at_the_end() -> None:
    def responses() -> Iterator[int]:
        yield 200
        raise LookupError("no more")

    mock = headgate.testing.mock()
    mock.get(URL).respond_in_turn(responses())
    with pytest.raises(AssertionError, match="no more"), mock, headgate.Client() as client:
        list(client.fetch_many([URL, URL]))


def test_the_result_of_a_function_must_be_a_response() -> None:
    mock = headgate.testing.mock(lambda _: object())  # type: ignore[arg-type, return-value]
    with (
        pytest.raises(AssertionError, match=r"a response is a headgate\.testing\.MockResponse"),
        mock,
        headgate.Client() as client,
    ):
        list(client.fetch_many([URL]))
    assert [None] == [call.response for call in mock.calls]


def test_a_route_with_the_same_pattern_replaces_the_earlier_one(mock: MockServer, client: headgate.Client) -> None:
    mock.get("/a", text="old", params={"b": 1})
    mock.get("/a", text="new", params={"b": 1})
    assert ("new", 1) == (client.get("http://a.example/a?b=1").text, len(mock.routes))


def test_a_route_for_anything_does_not_replace_one_for_something(mock: MockServer, client: headgate.Client) -> None:
    patterns: list[dict[str, Any]] = [
        {"json_body": {"a": 1}},
        {"json_body": {"a": True}},
        {"json_body": {"a": ANY}},
        {"json_body": ANY},
        {"params": {"b": "2"}},
        {"params": {"b": ANY}},
        {"headers": {"x": "3"}},
        {"headers": {"x": ANY}},
    ]
    for text in ("old", "new"):
        for number, pattern in enumerate(patterns):
            mock.post("/a", text=f"{text} {number}", **pattern)
    assert len(patterns) == len(mock.routes)
    sent: list[dict[str, Any]] = [
        {"json": {"a": 1}},
        {"json": {"a": True}},
        {"json": {"a": 2}},
        {"json": 1},
        {"params": {"b": 2}},
        {"params": {"b": 1}},
        {"headers": {"x": "3"}},
        {"headers": {"x": "4"}},
    ]
    responses = [client.post("http://a.example/a", **given).text for given in sent]
    assert [f"new {number}" for number in range(len(sent))] == responses


def test_many_requests_get_their_responses_in_order(mock: MockServer, client: headgate.Client) -> None:
    mock.get("/{n}", response=lambda request: request.path_params["n"])
    urls = [f"https://{n % 7}.example/{n}" for n in range(3000)]
    assert [str(n) for n in range(3000)] == [o.unwrap().text for o in client.fetch_many(urls, ordered=True)]
    assert (3000, 1000) == (mock.call_count, len(mock.calls))


def test_large_bodies_go_both_ways(mock: MockServer, client: headgate.Client) -> None:
    mock.post(URL, response=lambda request: MockResponse(content=request.content[::-1]))
    sent = os.urandom(3_000_000)
    assert sent[::-1] == client.post(URL, content=sent).content


def test_head_and_no_content_have_no_body(mock: MockServer, client: headgate.Client) -> None:
    mock.head(URL, text="abc")
    mock.delete(URL, status=204)
    assert ("3", b"") == (client.head(URL).headers["content-length"], client.head(URL).content)
    assert (204, b"") == (client.delete(URL).status_code, client.delete(URL).content)


def test_tables_are_mocked_and_share_nothing_with_calls_outside(server: str) -> None:
    urls = pa.table({"url": [f"{server}/hello"] * 20})

    def bodies() -> set[bytes]:
        return {bytes(body) for body in pa.table(headgate.fetch_table(urls)).column("body").to_pylist()}

    assert {b"Hello, World!"} == bodies()
    for text in (b"one", b"two"):
        with headgate.testing.mock() as mock:
            route = mock.get(f"{server}/hello", content=text)
            assert {text} == bodies()
            assert 20 == route.call_count
    assert {b"Hello, World!"} == bodies()


def test_jobs_are_mocked(mock: MockServer, tmp_path: Path) -> None:
    route = mock.get("https://a.example/{n}").respond_in_turn(({"n": n} if n != 2 else 404) for n in range(5))
    (tmp_path / "urls.txt").write_text("".join(f"https://a.example/{n}\n" for n in range(4)))
    summary = headgate.fetch(tmp_path / "urls.txt", tmp_path / "out", concurrency=1, progress=False)
    assert ({200: 3, 404: 1}, 4) == (summary.statuses, route.call_count)
    assert {"in process"} == set(table(tmp_path / "out").column("remote_addr").to_pylist())


def test_proxies_and_http2_are_bypassed(mock: MockServer) -> None:
    mock.get(URL, text="mocked")
    with headgate.Client(proxy="http://127.0.0.1:1", http2_prior_knowledge=True) as client:
        assert ("mocked", "HTTP/1.1") == (client.get(URL).text, client.get(URL).http_version)


def test_robots_txt_is_fetched_from_the_mock(mock: MockServer) -> None:
    mock.get("/robots.txt", text="User-agent: *\nDisallow: /users")
    with headgate.Client(obey_robots=True) as client, pytest.raises(headgate.BlockedByRobots):
        client.get(URL)


def test_threads_share_a_mock(mock: MockServer, client: headgate.Client) -> None:
    route = mock.get("/{n}", response=lambda request: request.path_params["n"])
    with ThreadPoolExecutor(16) as threads:
        found = threads.map(lambda n: client.get(f"http://a.example/{n}").text, range(320))
        assert [str(n) for n in range(320)] == list(found)
    assert 320 == route.call_count


def test_headers_and_cookies_match_as_they_were_given() -> None:
    with headgate.testing.mock() as server, headgate.Client() as client:
        route = server.get("https://api.example/", headers={"X-Name": "Zoë"}, cookies={"name": "Zoë €"}).respond(200)
        assert client.get("https://api.example/", headers={"X-Name": "Zoë"}, cookies={"name": "Zoë €"}).is_success
    assert "Zoë" == route.calls[0].request.headers["x-name"]
