"""`hooks` of clients: functions that are called with requests, attempts, responses and errors."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pytest

import headgate
from headgate.testing import MockServer
from support.loops import Run, until
from support.run import serving

API: Final = "http://api.example"
KINDS: Final = ("request", "attempt", "response", "error")


@pytest.fixture
def server() -> Iterator[MockServer]:
    with headgate.testing.mock(base_url=API, assert_all_called=False) as server:
        server.get("/ok").respond()
        server.get("/flaky").respond_in_turn([503, 200] * 10)
        server.get("/broken").fails("connection_closed")
        yield server


class Spy:
    """Notes what hooks are called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []
        self.hooks: Any = {kind: self.noting(kind) for kind in KINDS}
        self.async_hooks: Any = {kind: self.noting_later(kind) for kind in KINDS}

    def noting(self, kind: str) -> Callable[[Any], None]:
        return lambda seen: self.calls.append((kind, seen))

    def noting_later(self, kind: str) -> Callable[[Any], Any]:
        async def note(seen: Any) -> None:
            await asyncio.sleep(0)
            self.calls.append((kind, seen))

        return note

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.calls]

    def of(self, kind: str) -> list[Any]:
        return [seen for called, seen in self.calls if called == kind]


@pytest.fixture
def spy() -> Spy:
    return Spy()


def client_with(hooks: Any, **options: Any) -> headgate.Client:
    return headgate.Client(base_url=API, hooks=hooks, retries=1, retry_delay=0.001, **options)


def async_client_with(hooks: Any, **options: Any) -> headgate.AsyncClient:
    return headgate.AsyncClient(base_url=API, hooks=hooks, retries=1, retry_delay=0.001, **options)


def get(client: headgate.Client, url: str) -> None:
    client.get(url)


def stream(client: headgate.Client, url: str) -> None:
    with client.stream("GET", url) as response:
        response.read()


def fetch_many(client: headgate.Client, url: str) -> None:
    [outcome] = client.fetch_many([url])
    outcome.unwrap()


CALLS: Final = {"get": get, "stream": stream, "fetch_many": fetch_many}


async def get_async(client: headgate.AsyncClient, url: str) -> None:
    await client.get(url)


async def stream_async(client: headgate.AsyncClient, url: str) -> None:
    async with client.stream("GET", url) as response:
        await response.aread()


async def fetch_many_async(client: headgate.AsyncClient, url: str) -> None:
    [outcome] = [outcome async for outcome in client.fetch_many([url])]
    outcome.unwrap()


ASYNC_CALLS: Final = {"get": get_async, "stream": stream_async, "fetch_many": fetch_many_async}
URLS: Final = {"/ok": "response", "/flaky": "response", "/broken": "error"}
"""The last kind that is called for a URL."""


def check_calls(spy: Spy, url: str) -> None:
    """Checks what hooks were called with for the request of a URL."""
    _, last = spy.calls[-1]
    attempts = 1 if url == "/ok" else 2
    assert ["request", *["attempt"] * attempts, URLS[url]] == spy.kinds
    assert (attempts, [*range(1, attempts + 1)]) == (last.attempts, [attempt.number for attempt in spy.of("attempt")])
    assert all(seen.request.url == f"{API}{url}" for kind, seen in spy.calls if kind != "request")


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("call", CALLS)
def test_each_kind_is_called_in_its_order(spy: Spy, call: str, url: str) -> None:
    fails = pytest.raises(headgate.ConnectionClosed) if url == "/broken" else nullcontext()
    with client_with(spy.hooks) as client, fails as error:
        CALLS[call](client, url)
    check_calls(spy, url)
    assert error is None or [error.value] == spy.of("error")


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("call", ASYNC_CALLS)
@pytest.mark.parametrize("hooks", ["hooks", "async_hooks"])
def test_each_kind_is_called_in_an_event_loop(spy: Spy, call: str, url: str, run: Run, hooks: str) -> None:
    given = getattr(spy, hooks)
    if call == "fetch_many":
        given = {**given, "request": spy.hooks["request"]}

    async def main() -> None:
        fails = pytest.raises(headgate.ConnectionClosed) if url == "/broken" else nullcontext()
        async with async_client_with(given) as client:
            with fails as error:
                await ASYNC_CALLS[call](client, url)
        assert error is None or [error.value] == spy.of("error")

    run(main())
    check_calls(spy, url)


@pytest.mark.usefixtures("server")
def test_an_attempt_says_what_has_happened(spy: Spy) -> None:
    before = datetime.now(UTC)
    with client_with(spy.hooks) as client:
        client.send(headgate.Request("/flaky", tag=7))
        with pytest.raises(headgate.ConnectionClosed):
            client.get("/broken")
    first, second, broken, _ = spy.of("attempt")
    assert (1, 503, None, "", True, "HTTP/1.1") == (
        first.number,
        first.status_code,
        first.error,
        first.message,
        first.will_retry,
        first.http_version,
    )
    assert (2, 200, False, None) == (second.number, second.status_code, second.will_retry, second.retry_in_s)
    assert (7, f"{API}/flaky") == (first.request.tag, first.request.url)
    assert before - timedelta(seconds=1) < first.started_at < second.started_at <= datetime.now(UTC)
    assert all(0 <= seconds < 60 for seconds in (first.elapsed_s, first.waited_s, first.retry_in_s, second.waited_s))
    assert first.is_new_connection
    assert (None, "connection_closed", "the mock says so", None) == (
        broken.status_code,
        broken.error,
        broken.message,
        broken.http_version,
    )
    assert ("<Attempt 1: 503>", "<Attempt 1: connection_closed>") == (repr(first), repr(broken))
    with pytest.raises(AttributeError):
        first.number = 2


def test_a_connection_is_new_once() -> None:
    attempts: list[headgate.Attempt] = []
    with serving() as url, headgate.Client(base_url=url, hooks={"attempt": attempts.append}, threads=1) as client:
        for path in ("/hello", "/hello", "/redirect/2"):
            client.get(path)
    assert [True, False, False] == [attempt.is_new_connection for attempt in attempts]
    assert [(1, 200)] * 3 == [(attempt.number, attempt.status_code) for attempt in attempts]
    assert f"{url}/redirect/0" == attempts[-1].request.url
    assert attempts[0].remote_addr == url.removeprefix("http://")


def test_a_request_hook_sees_and_changes_what_is_sent(server: MockServer) -> None:
    def change(request: headgate.PreparedRequest) -> None:
        assert ("Bearer abc", "Bearer call") == (request.headers["authorization"], request.headers["x-auth"])
        assert "5" == request.headers["content-length"]
        assert (b"a=b+c", "application/x-www-form-urlencoded") == (request.content, request.headers["content-type"])
        request.headers["X-New"] = "1"
        request.headers["User-Agent"] = "mine"
        request.headers["x-call"] = "2"
        del request.headers["Accept"]
        del request.headers["x-gone"]
        request.method = "put"
        request.url += "?p=1"
        request.content = b"{}"
        request.headers["Content-Type"] = "application/json"

    server.route("PUT", "/a").respond()
    with client_with({"request": [change]}, bearer="abc") as client:
        response = client.post(
            "/a",
            data={"a": "b c"},
            headers={"X-Call": "1", "X-Gone": "1", "X-Same": "1"},
            auth=lambda request: request.headers.update({"X-Auth": "Bearer call"}),
        )
    [call] = server.calls
    assert ("PUT", f"{API}/a?p=1", b"{}") == (call.request.method, call.request.url, call.request.content)
    assert call.request.headers.multi_items() == response.request.headers.multi_items()  # type: ignore[attr-defined]
    headers = call.request.headers
    assert ["1", "mine", "2", "1", "Bearer call", "Bearer abc", "application/json"] == [
        headers[name] for name in ("x-new", "user-agent", "x-call", "x-same", "x-auth", "authorization", "content-type")
    ]
    assert {"accept", "x-gone"}.isdisjoint(headers)


@pytest.mark.usefixtures("server")
def test_what_a_hook_stores_is_seen_by_later_hooks() -> None:
    seen: list[Any] = []

    def begin(request: headgate.PreparedRequest) -> None:
        request.extensions["id"] = request.url[-4:]

    hooks: Any = {
        "request": begin,
        "attempt": lambda attempt: seen.append(attempt.request.extensions["id"]),
        "response": lambda response: seen.append(response.request.extensions["id"]),
        "error": lambda error: seen.append(error.request.extensions["id"]),
    }
    with client_with(hooks) as client:
        [*client.fetch_many(["/ok?1", "/broken?2"], ordered=True)]
        client.get("/ok?3")
    assert sorted(["ok?1"] * 2 + ["en?2"] * 3 + ["ok?3"] * 2) == sorted(seen)


@pytest.mark.usefixtures("server")
def test_several_functions_are_called_in_their_order() -> None:
    seen: list[int] = []
    with client_with({"response": [lambda _: seen.append(1), lambda _: seen.append(2)]}) as client:
        client.get("/ok")
    assert [1, 2] == seen


class WrongError(Exception):
    """The error of a hook."""


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", CALLS)
def test_an_error_of_a_hook_ends_the_call(spy: Spy, kind: str, call: str) -> None:
    def fail(_: object) -> None:
        raise WrongError("a bug")

    hooks = {**spy.hooks, kind: fail}
    url = "/broken" if kind == "error" else "/flaky"
    with client_with(hooks) as client:
        if kind == "request" and call == "fetch_many":
            with pytest.raises(headgate.InvalidRequest, match="hooks: WrongError: a bug"):
                CALLS[call](client, url)
        else:
            with pytest.raises(WrongError):
                CALLS[call](client, url)
        assert client.get("/ok").is_success if kind not in {"request", "attempt", "response"} else True
    if kind in {"attempt", "response"} and call != "fetch_many":
        [error] = spy.of("error")
        assert "the call was ended by WrongError" in str(error)
        assert isinstance(error.__cause__, WrongError)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("kind", ["attempt", "response"])
@pytest.mark.parametrize("call", ASYNC_CALLS)
def test_an_error_of_a_hook_ends_the_call_in_a_loop(kind: str, call: str, run: Run) -> None:
    async def fail(_: object) -> None:
        await asyncio.sleep(0)
        raise WrongError("a bug")

    async def main() -> None:
        async with async_client_with({kind: fail}) as client:
            with pytest.raises(WrongError):
                await ASYNC_CALLS[call](client, "/flaky")

    run(main())


def test_a_response_hook_may_raise_the_status(server: MockServer, spy: Spy) -> None:
    server.get("/404").respond(404)
    hooks = {**spy.hooks, "response": lambda response: response.raise_for_status()}
    with client_with(hooks) as client:
        with pytest.raises(headgate.StatusError):
            client.get("/404")
        found, missing = client.fetch_many(["/ok", "/404"], ordered=True)
    assert found.unwrap().is_success
    assert isinstance(missing.error, headgate.StatusError)
    assert ["status:404", "status:404"] == [error.kind for error in spy.of("error")]


def test_hooks_may_use_the_client(server: MockServer) -> None:
    server.post("/token").respond(text="abc")
    statuses = []

    def authorize(request: headgate.PreparedRequest) -> None:
        if not request.url.endswith("/token"):
            request.headers["Authorization"] = f"Bearer {client.post('/token').text}"

    def note(response: headgate.Response) -> None:
        if not response.url.endswith(("/token", "/ok")):
            statuses.append(client.get("/ok").status_code)

    with client_with({"request": authorize, "response": note}) as client:
        client.get("/flaky")
        stream(client, "/flaky")
        fetch_many(client, "/flaky")
    assert [200] * 3 == statuses
    assert {None, "Bearer abc"} == {call.request.headers.get("authorization") for call in server.calls}


def test_async_hooks_may_use_the_client(server: MockServer, run: Run) -> None:
    server.post("/token").respond(text="abc")

    async def main() -> None:
        async def authorize(request: headgate.PreparedRequest) -> None:
            if not request.url.endswith("/token"):
                request.headers["Authorization"] = f"Bearer {(await client.post('/token')).text}"

        async def look(attempt: headgate.Attempt) -> None:
            if attempt.will_retry:
                await client.post("/token")

        async with async_client_with({"request": authorize, "attempt": look}) as client:
            await asyncio.gather(*(client.get("/flaky") for _ in range(5)))
            await stream_async(client, "/flaky")

    run(main())
    flaky = [call for call in server.calls if call.request.path == "/flaky"]
    assert {"Bearer abc"} == {call.request.headers.get("authorization") for call in flaky}


@pytest.mark.usefixtures("server")
def test_hooks_run_in_the_thread_or_the_task_of_the_caller(run: Run) -> None:
    current = contextvars.ContextVar("current", default=0)
    seen: set[tuple[str, Any, Any]] = set()

    def note(kind: str) -> Callable[[Any], None]:
        return lambda of: seen.add((kind, of.url if kind == "request" else of.request.url, current.get()))

    hooks: Any = {kind: note(kind) for kind in KINDS}

    def call(client: headgate.Client, number: int) -> None:
        current.set(number)
        client.get(f"/ok?{number}")

    with client_with(hooks) as client, ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda number: contextvars.Context().run(call, client, number), range(20)))

    async def one(client: headgate.AsyncClient, number: int) -> None:
        current.set(number)
        await client.get(f"/ok?{number}")

    async def main() -> None:
        async with async_client_with(hooks) as client:
            await asyncio.gather(*(one(client, number) for number in range(20, 40)))

    run(main())
    assert {(kind, f"{API}/ok?{n}", n) for kind in KINDS[:3] for n in range(40)} == seen


@pytest.mark.usefixtures("server")
def test_threads_that_share_outcomes_share_their_hooks() -> None:
    lock, seen = threading.Lock(), dict.fromkeys(KINDS, 0)

    def count(kind: str) -> Callable[[Any], None]:
        def add(_: object) -> None:
            with lock:
                seen[kind] += 1

        return add

    with client_with({kind: count(kind) for kind in KINDS}) as client:
        outcomes = client.fetch_many(f"/ok?{number}" for number in range(200))
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: list(outcomes), range(4)))
    assert {"request": 200, "attempt": 200, "response": 200, "error": 0} == seen


def test_a_cancelled_call_is_reported_as_an_error(spy: Spy, run: Run) -> None:
    async def main() -> None:
        with serving() as url:
            async with headgate.AsyncClient(base_url=url, hooks=spy.async_hooks) as client:
                task = asyncio.create_task(client.get("/delay/3600"))
                await until(lambda: "request" in spy.kinds)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    run(main())
    assert ["request", "error"] == spy.kinds
    [error] = spy.of("error")
    assert isinstance(error, headgate.RequestCancelled)


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("kind", ["attempt", "response"])
def test_cancelling_a_hook_of_many_loses_no_outcome_and_the_hook_finishes(kind: str, run: Run) -> None:
    may_continue = asyncio.Event()
    begun, ended = [], []

    async def wait(seen: object) -> None:
        begun.append(seen)
        await may_continue.wait()
        ended.append(seen)

    async def main() -> None:
        async with async_client_with({kind: wait}) as client, client.fetch_many(["/ok"]) as outcomes:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.2):
                    await anext(outcomes)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await anext(outcomes)
            assert ([1], []) == ([len(begun)], ended)
            may_continue.set()
            assert [200] == [outcome.unwrap().status_code async for outcome in outcomes]

    run(main())
    assert (1, 1) == (len(begun), len(ended))


@pytest.mark.usefixtures("server")
def test_a_request_that_cannot_be_made_has_only_an_error(spy: Spy) -> None:
    with client_with(spy.hooks) as client:
        for url in ("ftp://host/", "/ok"):
            with pytest.raises(headgate.InvalidRequest):
                client.get(url, content=7 if url == "/ok" else None)  # type: ignore[arg-type] # a mistake
        list(client.fetch_many(["ftp://host/"]))
    assert ["error"] * 3 == spy.kinds


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize("hook", [lambda _: asyncio.sleep(0), pytest.param(asyncio.sleep, id="sleep")])
def test_an_asynchronous_hook_of_a_client_for_threads_is_an_error(hook: Any) -> None:
    expected = headgate.UsageError if hook is asyncio.sleep else TypeError
    with pytest.raises(expected, match="asynchronous"), client_with({"request": hook}) as client:
        client.get("/ok")


@pytest.mark.parametrize(
    ("message", "hooks"),
    [
        ("hooks must be a mapping such as {'response': function}, not list", [print]),
        ("hooks has no kind 'responses': there are 'request', 'attempt', 'response', 'error'", {"responses": print}),
        ("did you mean 'response'?", {"respone": print}),
        ("hooks of 'request' must be a function or a list of functions, not int", {"request": 7}),
        ("hooks of 'request' must be functions, not str", {"request": ["a"]}),
    ],
)
def test_wrong_hooks_are_refused(message: str, hooks: Any) -> None:
    for make in (headgate.Client, headgate.AsyncClient):
        with pytest.raises(headgate.UsageError) as error:
            make(hooks=hooks)
        assert message in str(error.value)
