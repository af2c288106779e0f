"""`auth` of clients, of calls, of tables and of jobs."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pytest

import headgate
from headgate.testing import MockRequest, MockResponse, MockServer
from support.loops import Run

API: Final = "http://api.example"
OTHER: Final = "http://other.example"
ANN: Final = "Basic YW5uOnNlY3JldA=="
BOB: Final = "Basic Ym9iOg=="
CALLERS: Final = 50


@pytest.fixture
def server() -> Iterator[MockServer]:
    with headgate.testing.mock() as server:
        yield server


def sent(server: MockServer, name: str = "authorization") -> list[str | None]:
    """Returns the values of a header in all requests."""
    return [call.request.headers.get(name) for call in server.calls]


def add_key(request: headgate.PreparedRequest) -> None:
    request.headers["X-Api-Key"] = "abc"


def send_as_bearer(request: headgate.PreparedRequest) -> None:
    request.headers["Authorization"] = "Bearer function"


@pytest.mark.parametrize("pair", [("ann", "secret"), (b"ann", "secret"), ("ann", b"secret")])
def test_a_user_and_a_password_are_sent_as_basic(server: MockServer, pair: Any) -> None:
    route = server.get(f"{API}/")
    with headgate.Client(base_url=API, auth=pair) as client, headgate.Client() as other:
        client.get("/")
        other.get(API, auth=pair)
        headgate.get(API, auth=pair)
        client.fetch_table(pa.table({"url": ["/"]}))
        headgate.fetch_table(pa.table({"url": [API]}), auth=pair, credentials_for=API)
    assert [ANN] * 5 == sent(server)
    assert 5 == route.call_count


def test_a_job_and_its_retry_send_a_user_and_a_password(server: MockServer, tmp_path: Path) -> None:
    server.get(f"{API}/1").respond_in_turn([404, 200])
    options: dict[str, Any] = {"auth": ("ann", "secret"), "credentials_for": API}
    urls = tmp_path / "urls.txt"
    urls.write_text(f"{API}/1")
    assert headgate.plan(urls, **options).requests[0].gets_credentials
    headgate.fetch(urls, tmp_path / "out", fail_on="4xx", **options)
    headgate.Job.open(tmp_path / "out").retry(auth=("bob", ""))
    assert [ANN, BOB] == sent(server)


@pytest.mark.parametrize(
    "wrong", ["ann:secret", ("ann",), ("ann", 5), ("a", "b", "c"), ("ann", "secret\ud800"), 7, object()]
)
def test_something_else_is_refused_without_its_value(wrong: Any, tmp_path: Path) -> None:
    makers: list[Callable[..., object]] = [
        headgate.Client,
        headgate.AsyncClient,
        lambda auth: headgate.fetch(API, tmp_path, auth=auth),
        lambda auth: headgate.plan(API, auth=auth),
        lambda auth: headgate.fetch_table(pa.table({"url": [API]}), auth=auth),
        lambda auth: headgate.get(API, auth=auth),
    ]
    for make in makers:
        with pytest.raises(ValueError, match=r"auth must be a user and a password in text, .*, not ") as raised:
            make(auth=wrong)
        assert "secret" not in str(raised.value)


def test_two_credentials_are_refused() -> None:
    for other in ({"bearer": "abc"}, {"user": "ann:secret"}):
        with pytest.raises(headgate.UsageError, match=f"auth can't be combined with {next(iter(other))}"):
            headgate.Client(base_url=API, auth=("ann", "secret"), **other)  # type: ignore[arg-type] # one of two


def test_a_client_with_auth_has_origins_that_get_it() -> None:
    for auth in (("ann", "secret"), add_key, Tokens()):
        with pytest.raises(headgate.UsageError, match="auth is a credential, and nothing says which hosts"):
            headgate.Client(auth=auth)
        headgate.Client(auth=auth, credentials_for=API).close()


def test_auth_none_sends_none_of_the_credentials_of_the_client(server: MockServer) -> None:
    server.get(f"{API}/")
    given: list[dict[str, Any]] = [
        {"auth": ("ann", "secret")},
        {"auth": send_as_bearer},
        {"bearer": "abc"},
        {"headers": {"Authorization": "Bearer abc"}},
        {"headers": {"X-Api-Key": "abc", "X-Trace": "7"}},
    ]
    for options in given:
        with headgate.Client(base_url=API, **options) as client:
            client.get("/", auth=None)
            assert [(None, None)] == [*zip(sent(server), sent(server, "x-api-key"), strict=True)], options
            server.calls.clear()
            list(client.fetch_many([{"url": "/", "auth": None}, "/"], ordered=True))
            both = [*zip(sent(server), sent(server, "x-api-key"), strict=True)]
            assert ((None, None) in both, 2) == (True, len(set(both)))
            server.calls.clear()


def test_auth_none_sends_the_other_headers_of_the_client(server: MockServer) -> None:
    server.get(f"{API}/")
    with headgate.Client(base_url=API, bearer="abc", headers={"X-Trace": "7"}) as client:
        client.get("/", auth=None, headers={"X-Api-Key": "mine"})
    assert ([None], ["7"], ["mine"]) == (sent(server), sent(server, "x-trace"), sent(server, "x-api-key"))


def test_auth_none_sends_no_user_of_the_base_url(server: MockServer) -> None:
    server.get(f"{API}/v1/a")
    with headgate.Client(base_url="http://ann:secret@api.example/v1") as client:
        client.get("/a", auth=None)
        client.get("/a")
    assert [None, ANN] == sent(server)


def test_the_auth_of_a_call_replaces_that_of_the_client(server: MockServer) -> None:
    server.get(f"{API}/")
    own: list[dict[str, Any]] = [{"auth": ("bob", "")}, {"headers": {"Authorization": BOB}}]
    for auth in (("ann", "secret"), send_as_bearer):
        with headgate.Client(base_url=API, auth=auth) as client:
            for options in own:
                client.get("/", **options)
    assert [BOB] * 4 == sent(server)


def test_the_auth_of_a_call_goes_to_its_origin_and_not_after_a_redirect(server: MockServer) -> None:
    server.get(f"{OTHER}/to").respond(302, headers={"Location": f"{API}/"})
    server.get(f"{API}/")
    with headgate.Client(base_url=API, auth=("ann", "secret")) as client:
        client.get(f"{OTHER}/to", auth=("bob", ""))
        client.get(f"{OTHER}/to", auth=send_as_bearer)
        client.get(f"{OTHER}/to")
    assert [BOB, None, "Bearer function", None, None, None] == sent(server)


def test_a_function_sees_what_is_sent_and_changes_it(server: MockServer) -> None:
    seen = []

    def sign(request: headgate.PreparedRequest) -> headgate.PreparedRequest:
        seen.append((request.method, request.url, dict(request.headers), request.content))
        request.headers["X-Signature"] = f"{request.method} {request.content!r}"
        del request.headers["X-Old"]
        request.url += "&signed=1"
        return request

    server.route("POST", f"{API}/v1/a")
    with headgate.Client(base_url=f"{API}/v1") as client:
        client.post("/a", params={"page": 2}, json={"a": 1}, headers={"X-Old": "1", "X-Name": "ü"}, auth=sign)
    headers = {"x-old": "1", "x-name": "ü", "content-type": "application/json"}
    assert [("POST", f"{API}/v1/a?page=2", headers, b'{"a":1}')] == seen
    (call,) = server.calls
    assert f"{API}/v1/a?page=2&signed=1" == call.request.url
    assert ("POST b'{\"a\":1}'", "application/json") == tuple(
        call.request.headers[name] for name in ("x-signature", "content-type")
    )
    assert "x-old" not in call.request.headers


def test_a_function_leaves_repeated_headers_and_other_encodings(server: MockServer) -> None:
    headers: Any = [("X-A", "1"), ("X-A", "2"), ("X-Latin", b"\xe4")]
    server.get(f"{API}/")
    with headgate.Client(base_url=API, auth=add_key) as client:
        client.get("/", headers=headers)
        client.get("/", headers=headers, auth=add_key)
        client.get("/", headers=headers, auth=None)
    first, second, third = ([*call.request.headers.multi_items()] for call in server.calls)
    key = ("X-Api-Key", "abc")
    assert (first, second) == ([*third, key], [*third, key])


def test_a_function_may_return_another_request(server: MockServer) -> None:
    server.put(f"{OTHER}/b")
    with headgate.Client(base_url=API) as client:
        client.get("/a", auth=lambda _: headgate.PreparedRequest("put", f"{OTHER}/b", {"X-A": "1"}, b"body"))
    (call,) = server.calls
    assert ("1", b"body") == (call.request.headers["x-a"], call.request.content)


def test_the_function_of_a_client_is_called_with_each_request(server: MockServer) -> None:
    server.get(f"{API}/{{number}}")
    with headgate.Client(base_url=API, auth=add_key) as client:
        client.get("/0")
        client.send(headgate.Request("/1"))
        with client.stream("GET", "/2"):
            pass
        list(client.fetch_many(["/3", headgate.Request("/4"), {"url": "/5"}]))
        assert 2 == pa.table(client.fetch_many(["/6", "/7"]).to_arrow_batches()).num_rows
    assert ["abc"] * 8 == sent(server, "x-api-key")


def test_headers_of_the_function_of_a_client_are_sent_to_its_origins_only(server: MockServer) -> None:
    server.get(f"{OTHER}/")
    server.get(f"{API}/to").respond(302, headers={"Location": f"{OTHER}/"})
    with headgate.Client(base_url=API, auth=add_key) as client:
        client.get(f"{OTHER}/", headers={"X-Trace": "7"})
        client.get("/to")
    assert [(None, "7"), ("abc", None), (None, None)] == [
        *zip(sent(server, "x-api-key"), sent(server, "x-trace"), strict=True)
    ]


def test_a_function_is_called_once_and_not_for_each_attempt(server: MockServer) -> None:
    calls: list[str] = []
    server.get(f"{API}/").respond_in_turn([503, 503, 200])
    with headgate.Client(base_url=API, retry_delay=0, auth=lambda request: calls.append(request.url)) as client:
        assert 3 == client.get("/").attempts
    assert [f"{API}/"] == calls


def fails(_: headgate.PreparedRequest) -> None:
    raise LookupError("no key")


async def is_asynchronous(_: headgate.PreparedRequest) -> None: ...


@pytest.mark.parametrize(
    ("kind", "message", "auth"),
    [
        (LookupError, "no key", fails),
        (TypeError, "auth must return None or a headgate.PreparedRequest, not str", lambda _: "abc"),
        (TypeError, "only single requests of an AsyncClient wait for it", is_asynchronous),
    ],
)
def test_an_error_of_a_function_is_raised_and_fails_one_of_many_requests(
    server: MockServer, kind: type[Exception], message: str, auth: Any
) -> None:
    server.get(f"{API}/")
    with headgate.Client(base_url=API) as client:
        with pytest.raises(kind, match=message):
            client.get("/", auth=auth)
        outcomes = list(client.fetch_many([headgate.Request("/", auth=auth), "/"], ordered=True))
    assert [False, True] == [outcome.error is None for outcome in outcomes]
    with pytest.raises(headgate.InvalidRequest, match=f"auth: {kind.__name__}: .*{message}"):
        outcomes[0].unwrap()
    assert 1 == len(server.calls)


def test_an_asynchronous_function_is_awaited(server: MockServer, run: Run) -> None:
    async def sign(request: headgate.PreparedRequest) -> None:
        await asyncio.sleep(0)
        add_key(request)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=API, auth=sign) as client:
            await client.get("/0")
            async with client.stream("GET", "/1"):
                pass
            await client.get("/2", auth=add_key)
            await client.get("/3", auth=None)

    server.get(f"{API}/{{number}}")
    run(main())
    assert ["abc", "abc", "abc", None] == sent(server, "x-api-key")


def test_tables_and_jobs_have_no_request_for_a_function(tmp_path: Path) -> None:
    table = pa.table({"url": ["/"]})
    client = headgate.Client(base_url=API, auth=add_key)
    with client, pytest.raises(headgate.UsageError, match="not rows of a table"):
        client.fetch_table(table)
    function: Any = add_key
    with pytest.raises(headgate.UsageError, match="auth can't be a function"):
        headgate.fetch(API, tmp_path, auth=function)
    with pytest.raises(headgate.UsageError, match="auth can't be a function"):
        headgate.fetch_table(table, auth=function)


def test_tokens_are_for_clients_and_not_for_one_request() -> None:
    tokens: Any = Tokens()
    with headgate.Client() as client, pytest.raises(headgate.InvalidRequest, match="give it to the client"):
        client.get(API, auth=tokens)


@pytest.mark.parametrize("ttl", [0, -1, True, "60"])
def test_a_ttl_is_a_number_of_seconds(ttl: Any) -> None:
    with pytest.raises(headgate.UsageError, match=r"auth must have a ttl in seconds above 0, or None, not"):
        headgate.Client(base_url=API, auth=Tokens(ttl=ttl))


@dataclass
class Tokens:
    """A source of tokens that are numbered, of which the newest is valid."""

    ttl: float | None = None
    calls: list[int] = field(default_factory=list)
    at_once: int = 0

    def token(self) -> str:
        self.at_once += 1
        assert 1 == self.at_once
        self.calls.append(threading.get_ident())
        self.at_once -= 1
        return f"t{len(self.calls)}"

    def responds(self, request: MockRequest) -> MockResponse:
        is_valid = request.headers.get("authorization") == f"Bearer t{len(self.calls)}"
        return MockResponse(200 if is_valid else 401)


class AsyncTokens(Tokens):
    """The same, asynchronously."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def token(self) -> str:  # type: ignore[override] # both kinds are accepted
        await asyncio.sleep(0)
        self.loops.append(asyncio.get_running_loop())
        return super().token()


class Failing:
    """A source without a token."""

    def token(self) -> str:
        raise LookupError("the vault is sealed")


@pytest.mark.parametrize("kind", [Tokens, AsyncTokens])
def test_many_threads_make_one_call_for_a_token_and_one_more_after_a_401(
    server: MockServer, kind: Callable[[], Tokens]
) -> None:
    tokens = kind()
    server.post(f"{API}/").gives(tokens.responds)
    with headgate.Client(base_url=API, auth=tokens) as client, ThreadPoolExecutor(CALLERS) as threads:

        def send_all() -> list[int]:
            return list(threads.map(lambda _: client.post("/", content=b"a").status_code, range(CALLERS)))

        assert [200] * CALLERS == send_all()
        assert 1 == len(tokens.calls)
        tokens.calls.append(0)  # the token expires
        assert [200] * CALLERS == send_all()
        assert 3 == len(tokens.calls)


@pytest.mark.parametrize("kind", [Tokens, AsyncTokens])
def test_several_loops_make_one_call_for_a_token_and_one_more_after_a_401(
    server: MockServer, kind: Callable[[], Tokens]
) -> None:
    tokens = kind()
    rounds = threading.Barrier(4), threading.Barrier(4, action=lambda: tokens.calls.append(0))  # the token expires
    server.get(f"{API}/").gives(tokens.responds)
    client = headgate.AsyncClient(base_url=API, auth=tokens)

    async def main(_: int) -> None:
        for begin in rounds:
            begin.wait()
            responses = await asyncio.gather(*(client.get("/") for _ in range(CALLERS)))
            assert {200} == {response.status_code for response in responses}

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: asyncio.run(main(number)), range(4)))
    asyncio.run(client.aclose())
    assert 3 == len(tokens.calls)


def test_an_asynchronous_token_comes_from_the_loop_of_the_client(server: MockServer, run: Run) -> None:
    tokens = AsyncTokens()
    server.get(f"{API}/").gives(tokens.responds)

    async def main() -> None:
        async with headgate.AsyncClient(base_url=API, auth=tokens) as client:
            assert [200] * 9 == [outcome.unwrap().status_code async for outcome in client.fetch_many(["/"] * 9)]
            assert [asyncio.get_running_loop()] == tokens.loops

    run(main())


def test_an_error_of_the_source_of_tokens_is_that_of_the_request(server: MockServer, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=API, auth=Failing(), retries=0) as client:
            with pytest.raises(headgate.RequestError, match="the vault is sealed"):
                await client.get("/")

    client = headgate.Client(base_url=API, auth=Failing(), retries=0)
    with client, pytest.raises(headgate.RequestError, match="the vault is sealed"):
        client.get("/")
    run(main())
    assert [] == list(server.calls)


@pytest.mark.parametrize("kind", [Tokens, AsyncTokens])
def test_jobs_tables_and_functions_take_tokens(server: MockServer, kind: Callable[[], Tokens], tmp_path: Path) -> None:
    tokens = kind()
    server.get(f"{API}/{{number}}").gives(tokens.responds)
    urls = [f"{API}/{number}" for number in range(3)]
    options: dict[str, Any] = {"auth": tokens, "credentials_for": API}
    assert 200 == headgate.get(urls[0], auth=tokens).status_code
    assert 3 == headgate.fetch(urls, tmp_path, fail_on="4xx", **options).succeeded
    assert [200] * 3 == pa.table(headgate.fetch_table(pa.table({"url": urls}), **options))["status"].to_pylist()
    assert 3 == len(tokens.calls)


def test_a_call_without_auth_or_with_its_own_needs_no_token(server: MockServer) -> None:
    tokens = Tokens()
    server.get(f"{API}/").respond(401)
    with headgate.Client(base_url=API, auth=tokens) as client:
        client.get("/", auth=None)
        client.get("/", auth=("ann", "secret"))
    assert ([None, ANN], []) == (sent(server), tokens.calls)
