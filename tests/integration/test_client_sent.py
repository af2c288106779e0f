"""The request as it was sent: `Response.request` and the `request` of errors."""

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

import headgate
from headgate.testing import MockRequest, MockResponse, MockServer
from support.loops import HELD, Run
from support.run import serving, wait_for

API: Final = "http://api.example"
OTHER: Final = "http://other.example"


@pytest.fixture
def server() -> Iterator[MockServer]:
    with headgate.testing.mock(assert_all_called=False) as server:
        yield server


def facts(request: "headgate.PreparedRequest | MockRequest | None") -> tuple[str, str, list[tuple[str, str]], bytes]:
    """Returns what a request consists of."""
    assert request is not None
    headers: Any = request.headers
    return request.method, request.url, headers.multi_items(), request.content or b""


REQUESTS: Final[dict[str, dict[str, Any]]] = {
    "a URL": {"url": "/a/../b?c=d e#f"},
    "headers": {"url": "/a", "headers": [("X-One", "1"), ("x-one", "2"), ("ACCEPT", "text/html")]},
    "a form": {"url": "/a", "method": "POST", "data": {"a": "b c"}, "params": {"p": 1}},
    "JSON": {"url": "/a", "method": "PUT", "json": {"a": 1}},
    "an empty POST": {"url": "/a", "method": "POST"},
    "credentials": {"url": "/a", "auth": ("me", "secret")},
    "none": {"url": "/a", "auth": None},
    "a user": {"url": "http://me:secret@api.example/a"},
    "a function": {"url": "/a", "auth": lambda request: request.headers.update({"X-Key": "abc"})},
    "another origin": {"url": f"{OTHER}/a"},
}


@pytest.mark.parametrize("of", REQUESTS)
@pytest.mark.parametrize("options", [{}, {"compress_body": "gzip", "headers": {"X-Client": "1"}, "user_agent": "mine"}])
def test_a_response_has_the_request_as_it_was_sent(server: MockServer, of: str, options: dict[str, Any]) -> None:
    server.route().respond()
    request = headgate.Request(**REQUESTS[of], tag=7)
    with headgate.Client(base_url=API, bearer="of the client", **options) as client:
        responses = [client.send(request), *(outcome.unwrap() for outcome in client.fetch_many([request]))]
        with client.stream(request.method, request.url, headers=request.headers) as streamed:
            responses.append(streamed)
    assert [facts(call.request) for call in server.calls] == [facts(response.request) for response in responses]
    assert [7, 7, None] == [response.request.tag for response in responses]


@pytest.mark.parametrize("of", ["an iterator", "a file", "a form"])
def test_a_body_that_is_read_while_it_is_sent_has_its_headers(server: MockServer, of: str, tmp_path: Path) -> None:
    server.route().respond()
    path = tmp_path / "body"
    path.write_bytes(b"abc")
    with headgate.Client(base_url=API) as client, path.open("rb") as file:
        bodies: dict[str, dict[str, Any]] = {
            "an iterator": {"content": iter([b"abc", b"def"])},
            "a file": {"content": file},
            "a form": {"files": {"file": file}, "data": {"a": "b"}},
        }
        sent = client.post("/", **bodies[of]).request
    assert facts(server.calls[-1].request)[:3] == facts(sent)[:3]
    assert sent.content is None


def test_a_loop_gets_the_request_as_it_was_sent(server: MockServer, run: Run) -> None:
    server.route().respond()
    request = headgate.Request("/a", method="POST", json={"a": 1}, tag=7)

    responses: list[headgate.Response] = []

    async def main() -> None:
        async with headgate.AsyncClient(base_url=API, bearer="abc") as client:
            responses.append(await client.send(request))
            responses.extend([outcome.unwrap() async for outcome in client.fetch_many([request])])
            async with client.stream("POST", "/a", json={"a": 1}) as streamed:
                responses.append(streamed)

    run(main())
    assert [facts(call.request) for call in server.calls] == [facts(response.request) for response in responses]
    assert [7, 7, None] == [response.request.tag for response in responses]


@pytest.mark.parametrize(("status", "method"), [(302, "GET"), (303, "GET"), (307, "POST")])
@pytest.mark.parametrize("to", [API, OTHER])
def test_after_redirects_it_is_the_last_one(server: MockServer, status: int, method: str, to: str) -> None:
    server.post(f"{API}/a").respond(status, headers={"location": f"{to}/b", "set-cookie": "c=1"})
    server.route(method, f"{to}/b").respond()
    with headgate.Client(base_url=API, bearer="abc", max_redirects=3, headers={"X-Client": "1"}) as client:
        response = client.post("/a", content=b"abc", headers={"X-Call": "1", "Accept": "text/html"})
    if status == 307 and to == OTHER:
        assert (307, f"{API}/a") == (response.status_code, response.request.url), "a body goes nowhere else"
    else:
        assert (method, f"{to}/b") == (response.request.method, response.request.url)
    assert facts(server.calls[-1].request) == facts(response.request)
    assert (to == API or status == 307) == ("authorization" in response.request.headers)
    assert headgate.Response is type(response)
    assert (method == "POST") == (response.request.content == b"abc")


def test_the_request_has_the_token_with_which_it_was_sent(server: MockServer) -> None:
    tokens = iter(("first", "second", *(f"later {index}" for index in range(6))))

    class Provider:
        def token(self) -> str:
            return next(tokens)

    def answer(request: MockRequest) -> MockResponse:
        is_stale = request.headers["authorization"] in stale
        return MockResponse(401 if is_stale else 200)

    stale: set[str] = set()
    server.route().gives(answer)
    responses = []
    with headgate.Client(base_url=API, auth=Provider(), retries=0) as client:
        for _ in range(4):
            responses.append(client.get("/"))
            stale.add(responses[-1].request.headers["authorization"])
    assert ["Bearer first", "Bearer second", "Bearer later 0", "Bearer later 1"] == [
        response.request.headers["authorization"] for response in responses
    ]


def test_secret_headers_are_masked(server: MockServer) -> None:
    server.route().respond()

    def sign(request: headgate.PreparedRequest) -> None:
        request.headers["X-Signature"] = "secret"

    with headgate.Client(
        base_url=API, auth=sign, secret_headers=["X-Secret"], headers={"X-Secret": "secret"}
    ) as client:
        request = client.get("/", headers={"Cookie": "secret=1", "X-Plain": "plain"}).request
    assert "secret" not in repr(request)
    shown = repr(request.headers)
    assert shown.count("***") == 3
    assert "secret=1" not in shown
    assert "('X-Plain', 'plain')" in shown
    assert "secret" == request.headers["x-secret"]


def test_responses_and_errors_are_pickled_with_their_request(server: MockServer) -> None:
    server.get(f"{API}/404").respond(404)
    server.get(f"{API}/broken").fails("connection_closed")
    with headgate.Client(base_url=API, retries=0) as client:
        response = client.send(headgate.Request("/404", tag={"a": 1}, auth=lambda _: None))
        with pytest.raises(headgate.StatusError) as status:
            response.raise_for_status()
        with pytest.raises(headgate.ConnectionClosed) as closed:
            client.send(headgate.Request("/broken", tag=7))
    for original in (response, status.value, closed.value):
        restored = pickle.loads(pickle.dumps(original))  # noqa: S301 - our own
        assert facts(original.request) == facts(restored.request)
        assert original.request is not None
        assert original.request.tag == restored.request.tag


@pytest.mark.parametrize(
    ("make", "is_known"),
    [
        (lambda client: client.get("/broken", headers={"X-One": "1"}), True),
        (lambda client: next(client.fetch_many([headgate.Request("/broken", headers={"X-One": "1"})])).unwrap(), True),
        (lambda client: client.get("/broken", headers={"X One": "1"}), False),
        (lambda client: client.get("ftp://host/"), False),
        (lambda client: client.get("/broken", content=7), False),
    ],
)
def test_an_error_has_its_request_unless_it_could_not_be_made(
    server: MockServer, make: Callable[[headgate.Client], object], is_known: bool
) -> None:
    server.get(f"{API}/broken").fails("connection_closed")
    with headgate.Client(base_url=API, retries=0) as client, pytest.raises(headgate.RequestError) as error:
        make(client)
    if is_known:
        assert facts(server.calls[-1].request) == facts(error.value.request)
    else:
        assert error.value.request is None


def test_a_body_that_breaks_off_has_its_request() -> None:
    with (
        serving() as url,
        headgate.Client(base_url=url) as client,
        client.stream("GET", "/fault/reset-mid-body") as response,
        pytest.raises(headgate.ConnectionClosed) as error,
    ):
        response.read()
    assert error.value.request is response.request


def test_the_request_has_the_cookies_that_were_in_the_jar_when_it_was_sent(server: MockServer) -> None:
    server.get(f"{API}/set").respond(headers={"set-cookie": "a=2"})
    server.route().respond()
    with headgate.Client(base_url=API, cookies={"a": "1"}) as client:
        responses = [client.get("/set"), client.get("/"), client.get(OTHER)]
        client.cookies.clear()
    assert [call.request.headers.get("cookie") for call in server.calls] == ["a=1", "a=2", None]
    assert [facts(call.request) for call in server.calls] == [facts(response.request) for response in responses]


def test_a_request_that_was_never_sent_has_the_headers_that_it_would_have_now() -> None:
    headers = {"Authorization": "Bearer secret", "X-Kept": "1"}
    with (
        serving() as url,
        headgate.Client(base_url=url, headers=headers, concurrency=1) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        del client.headers["authorization"]
        held = pool.submit(client.get, HELD, timeout=None)
        wait_for(lambda: client.statistics().in_flight == 1)
        for timeout, expected in (("total_timeout", headgate.TotalTimeout), ("pool_timeout", headgate.PoolTimeout)):
            options: dict[str, Any] = {timeout: 0.2}
            with pytest.raises(expected) as error:
                client.get("/", **options)
            assert error.value.request is not None
            assert "authorization" not in error.value.request.headers
            assert "1" == error.value.request.headers["x-kept"]
        client.close()
        with pytest.raises(headgate.RequestError):
            held.result()
