"""`Client(app=...)` and `AsyncClient(app=...)`: an ASGI application in place of the network."""

import asyncio
import contextvars
import gc
import gzip
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate
import headgate.testing
from headgate import AsgiApp
from support.loops import Run
from support.run import printed_by, wait_for

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


async def respond(send: Send, body: bytes = b"", status: int = 200, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def body_of(receive: Receive) -> bytes:
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    return body


def http(handler: App) -> App:
    """Returns an application without a lifespan."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert "http" == scope["type"]
        await handler(scope, receive, send)

    return app


@http
async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    body = await body_of(receive)
    seen = {
        **{name: scope[name] for name in ("method", "path", "scheme", "root_path", "http_version")},
        "raw_path": scope["raw_path"].decode(),
        "query": scope["query_string"].decode(),
        "server": scope["server"],
        "client": scope["client"],
        "headers": {name.decode(): value.decode() for name, value in scope["headers"]},
        "body": body.decode(),
    }
    await respond(send, json.dumps(seen).encode(), 200, (b"content-type", b"application/json"))


def test_a_request_is_a_scope_and_a_body() -> None:
    with headgate.Client(app=echo) as client:
        response = client.post("/a%20b/ü", params={"q": "1 2"}, content=b"abc", headers={"X-Trace": "7"})
    seen = response.json()
    assert ("POST", "/a b/ü", "/a%20b/%C3%BC", "q=1+2") == tuple(
        seen[name] for name in ("method", "path", "raw_path", "query")
    )
    assert ("http", ["testserver", 80], ["127.0.0.1", 50000], "", "1.1") == tuple(
        seen[name] for name in ("scheme", "server", "client", "root_path", "http_version")
    )
    assert ("abc", "7", "testserver", "3") == (
        seen["body"],
        *(seen["headers"][name] for name in ("x-trace", "host", "content-length")),
    )
    assert "headgate-context" not in {**seen["headers"], **response.request.headers}
    assert ("http://testserver/a%20b/ü?q=1+2", 1) == (response.url, response.attempts)


def test_the_base_url_and_the_app_have_settings() -> None:
    app = AsgiApp(echo, root_path="/v1", client=("192.0.2.1", 7))
    with headgate.Client(app=app, base_url="https://api.example.com:8443/v2") as client:
        seen = client.get("users").json()
    assert ("https", ["api.example.com", 8443], "/v2/users", "/v1", ["192.0.2.1", 7]) == tuple(
        seen[name] for name in ("scheme", "server", "path", "root_path", "client")
    )


def test_an_async_client_runs_the_app_in_its_loop(run: Run) -> None:
    loops = set()
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        loops.add(asyncio.get_running_loop())
        await respond(send, user.get().encode())

    async def main() -> None:
        async with headgate.AsyncClient(app=app) as client:
            user.set("ann")
            assert "ann" == (await client.get("/")).text
            user.set("bob")
            async with client.stream("GET", "/") as response:
                assert b"bob" == await response.aread()
        assert {asyncio.get_running_loop()} == loops

    run(main())


def test_a_thread_passes_its_context_variables() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")

    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(send, user.get().encode())

    with headgate.Client(app=app) as client:
        for name in ("ann", "bob"):
            user.set(name)
            assert name == client.get("/").text
            with client.stream("GET", "/") as response:
                assert name.encode() == response.read()


def test_redirects_cookies_encodings_and_retries_are_those_of_the_engine() -> None:
    calls = []

    @http
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        calls.append(scope["path"])
        if scope["path"] == "/start":
            await respond(send, b"", 302, (b"location", b"https://other.example/end"))
        elif len(calls) < 4:
            await respond(send, b"", 503)
        else:
            await respond(send, gzip.compress(b"packed"), 200, (b"content-encoding", b"gzip"))

    with headgate.Client(app=app, retry_delay=0.001) as client:
        response = client.get("/start")
    assert ("packed", "https://other.example/end") == (response.text, response.url)
    assert ["/start", "/end", "/start", "/end"] == calls


def test_a_mock_does_not_replace_an_app() -> None:
    with headgate.testing.mock(assert_all_called=False) as mock, headgate.Client(app=echo) as client:
        mock.get(prefix="http://", text="mocked")
        assert "GET" == client.get("/").json()["method"]
        with headgate.Client() as other:
            assert "mocked" == other.get("http://testserver/").text
    assert 1 == mock.call_count


def test_a_response_streams_piece_by_piece_and_headers_come_before() -> None:
    wanted = threading.Semaphore(0)

    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"x-first", b"1")]})
        for number in range(3):
            await asyncio.to_thread(wanted.acquire)
            await send({"type": "http.response.body", "body": b"%d" % number, "more_body": True})
        await send({"type": "http.response.body"})

    with headgate.Client(app=app) as client, client.stream("GET", "/") as response:
        assert "1" == response.headers["x-first"]
        arriving = response.iter_bytes()
        for number in range(3):
            wanted.release()
            assert b"%d" % number == next(arriving)
        assert [] == list(arriving)


def test_an_async_client_streams_both_ways(run: Run) -> None:
    @http
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        more = True
        while more:
            message = await receive()
            more = message["more_body"]
            await send({"type": "http.response.body", "body": message["body"].upper(), "more_body": True})
        await send({"type": "http.response.body", "body": b"!"})

    async def main() -> None:
        content = os.urandom(500_000).hex().encode()
        async with headgate.AsyncClient(app=app) as client:
            async with client.stream("POST", "/", content=content) as response:
                assert content.upper() + b"!" == await response.aread()
            assert content.upper() + b"!" == (await client.post("/", content=content)).content

    run(main())


def test_the_app_waits_while_the_client_does_not_read(run: Run) -> None:
    sent = 0

    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200})
        for _ in range(1000):
            await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
            sent += 1
        await send({"type": "http.response.body"})

    async def main() -> None:
        async with headgate.AsyncClient(app=app) as client, client.stream("GET", "/") as response:
            before = -1
            while before != sent or not sent:
                before = sent
                await asyncio.sleep(0.2)
            assert sent < 50
            assert 65_536_000 == sum([len(piece) async for piece in response.aiter_bytes()])

    run(main())


def test_the_app_is_told_that_the_client_has_gone(run: Run) -> None:
    messages = []
    told = asyncio.Event()

    @http
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        messages.append(await receive())
        messages.append(await receive())
        await send({"type": "http.response.body", "body": b"unread"})
        told.set()

    async def main() -> None:
        async with headgate.AsyncClient(app=app) as client:
            async with client.stream("GET", "/") as response:
                assert b"first" == await anext(response.aiter_bytes())
            await told.wait()
        assert [False, None] == [message.get("more_body") for message in messages]
        assert "http.disconnect" == messages[1]["type"]

    run(main())


def test_an_app_that_never_stops_sending_does_not_block_the_loop(run: Run) -> None:
    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200})
        while True:
            await send({"type": "http.response.body", "body": b"more", "more_body": True})

    async def main() -> None:
        async with headgate.AsyncClient(app=app) as client, client.stream("GET", "/") as response:
            assert b"more" == (await anext(response.aiter_bytes(4)))

    run(main())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt(), pytest.fail.Exception("no")], ids=repr)
@pytest.mark.parametrize("scope_type", ["lifespan", "http"])
def test_an_app_in_a_thread_may_raise_anything(error: BaseException, scope_type: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == scope_type:
            raise error
        await (receive() if scope["type"] == "lifespan" else respond(send, b"", 200))
        await send({"type": "lifespan.startup.complete"})
        await receive()

    client = headgate.Client(app=app, total_timeout=30)
    for _ in range(2):
        with pytest.raises(type(error)):
            client.get("/")
    client.close()


def test_a_timeout_of_the_client_disconnects_the_app() -> None:
    told = threading.Event()

    @http
    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        told.set()

    with headgate.Client(app=app, retries=0) as client:
        with pytest.raises(headgate.ReadTimeout):
            client.get("/", timeout=0.05)
        assert told.wait(30)


def test_a_cancelled_call_disconnects_the_app(run: Run) -> None:
    async def main() -> None:
        entered, told = asyncio.Event(), asyncio.Event()

        @http
        async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
            entered.set()
            while (await receive())["type"] != "http.disconnect":
                pass
            told.set()

        async with headgate.AsyncClient(app=app) as client:
            call = asyncio.create_task(client.get("/"))
            await entered.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await told.wait()

    run(main())


def test_receive_ends_when_the_response_is_complete() -> None:
    @http
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await body_of(receive)
        await respond(send, b"done")
        assert "http.disconnect" == (await receive())["type"]

    with headgate.Client(app=app) as client:
        assert "done" == client.post("/", content=b"abc").text


def test_a_call_returns_when_the_app_has_returned(run: Run) -> None:
    done = []

    @http
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(send, b"" if scope["path"] == "/empty" else b"abc", 200, *scope["headers"][:0])
        await asyncio.sleep(0.01)
        done.append(scope["path"])

    async def main() -> None:
        async with headgate.AsyncClient(app=app) as client:
            for method, path in (("GET", "/body"), ("HEAD", "/head"), ("GET", "/empty")):
                await client.request(method, path)
                assert path == done[-1]

    run(main())


class Failure(Exception):  # noqa: N818 - what happened
    pass


def failing(when: str) -> App:
    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        if when == "after a response":
            # As Starlette reports errors.
            await respond(send, b"Internal Server Error", 500)
        if when == "in a body":
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        raise Failure(when)

    return app


@pytest.mark.parametrize("when", ["before a response", "after a response", "in a body"])
def test_an_exception_of_the_app_is_raised_by_the_call(when: str, run: Run) -> None:
    with headgate.Client(app=failing(when)) as client:
        with pytest.raises(Failure, match=when):
            client.get("/")
        (outcome,) = client.fetch_many(["/"])
        assert isinstance(outcome.error, headgate.ConnectionClosed)
        assert f"the app raised Failure: {when}" in str(outcome.error)
        assert isinstance(outcome.error.__cause__, Failure)

    async def main() -> None:
        async with headgate.AsyncClient(app=failing(when)) as client:
            with pytest.raises(Failure, match=when):
                await client.get("/")

    run(main())


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
def test_calls_fail_once_the_thread_of_the_app_has_ended_and_close_raises_its_error(error: BaseException) -> None:
    def raise_error() -> None:
        raise error

    @http
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        if scope["path"] == "/end":
            asyncio.get_running_loop().call_soon(raise_error)
            await asyncio.Event().wait()
        await respond(send, b"alive")

    client = headgate.Client(app=app, total_timeout=None)
    assert "alive" == client.get("/").text
    with pytest.raises(headgate.ConnectionClosed, match="the app was stopped"):
        client.get("/end")
    wait_for(lambda: all(thread.name != "headgate-app" for thread in threading.enumerate()))
    with pytest.raises(RuntimeError, match="the thread of the app has ended") as raised:
        client.get("/")
    assert error is raised.value.__cause__
    with pytest.raises(type(error)):
        client.close()
    client.close()


def test_a_startup_whose_thread_ends_fails() -> None:
    async def app(_scope: Scope, receive: Receive, _send: Send) -> None:
        await receive()
        asyncio.get_running_loop().call_soon(sys.exit, 3)
        await asyncio.Event().wait()

    client = headgate.Client(app=app)
    with pytest.raises(RuntimeError, match="the thread of the app has ended") as raised, client:
        pytest.fail("it has not started")
    assert isinstance(raised.value.__cause__, SystemExit)
    assert client.is_closed


@pytest.mark.parametrize("error", [SystemExit(3), pytest.fail.Exception("no")])
def test_what_is_no_ordinary_exception_is_raised_as_well(error: BaseException, run: Run) -> None:
    @http
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise error

    with headgate.Client(app=app) as client, pytest.raises(type(error)):
        client.get("/")

    async def main() -> None:
        async with headgate.AsyncClient(app=app) as client:
            with pytest.raises(type(error)):
                await client.get("/")

    run(main())


@pytest.mark.parametrize("when", ["before a response", "after a response", "in a body"])
def test_an_exception_of_the_app_is_raised_by_a_stream(when: str) -> None:
    with headgate.Client(app=failing(when)) as client, pytest.raises(Failure, match=when):  # noqa: SIM117 - raised in it
        with client.stream("GET", "/") as response:
            response.read()


@pytest.mark.parametrize(
    ("when", "found"),
    [("before a response", (500, "Internal Server Error")), ("after a response", (500, "Internal Server Error"))],
)
def test_a_server_responds_in_place_of_an_exception(when: str, found: tuple[int, str]) -> None:
    with headgate.Client(app=AsgiApp(failing(when), raise_app_exceptions=False), retries=0) as client:
        response = client.get("/")
        assert found == (response.status_code, response.text)


def test_a_body_that_breaks_off_is_one_of_the_server() -> None:
    app = AsgiApp(failing("in a body"), raise_app_exceptions=False)
    with headgate.Client(app=app, retries=0) as client, pytest.raises(headgate.ConnectionClosed):
        client.get("/")


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ([], "the app returned without a response"),
        ([{"type": "http.response.start", "status": 200}], "the app returned without completing its response"),
        ([{"type": "http.response.body"}], "unexpected 'http.response.body'"),
        ([{"type": "http.response.start", "status": "200"}], "status must be a number"),
        ([{"type": "http.response.start", "status": 200}, {"type": "http.response.start"}], "unexpected"),
        (
            [
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]},
                {"type": "http.response.body", "body": b"abc"},
            ],
            "not as long as its content-length",
        ),
        (
            [
                {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"4")]},
                {"type": "http.response.body", "body": b"abc"},
            ],
            "not as long as its content-length",
        ),
        (
            [
                {"type": "http.response.start", "status": 200},
                {"type": "http.response.body"},
                {"type": "http.response.body"},
            ],
            "the response is complete",
        ),
        ([{"type": "http.response.start", "status": 200, "headers": [("a", "b")]}], "headers must be bytes"),
    ],
)
def test_a_response_that_is_none_is_an_error(messages: list[dict[str, Any]], error: str) -> None:
    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        for message in messages:
            await send(message)

    with headgate.Client(app=app) as client, pytest.raises((RuntimeError, TypeError), match=error):
        client.get("/")


@pytest.mark.parametrize("status", [204, 304])
def test_a_response_without_a_body(status: int) -> None:
    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(send, b"", status)

    with headgate.Client(app=app) as client:
        assert [status] * 2 == [client.get("/").status_code for _ in range(2)]


def test_a_head_request_has_the_headers_of_a_get() -> None:
    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(send, b"abc", 200, (b"content-length", b"3"))

    with headgate.Client(app=app) as client:
        response = client.head("/")
    assert ("3", b"") == (response.headers["content-length"], response.content)


def test_a_body_that_the_app_does_not_read_is_no_obstacle() -> None:
    @http
    async def app(_scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(send, b"no", 413)

    with headgate.Client(app=app) as client:
        assert [413] * 3 == [client.post("/", content=b"x" * 3_000_000).status_code for _ in range(3)]


class Lifespan:
    """An application that records its startup and its shutdown."""

    def __init__(self, fails: str = "", *, raises: bool = False) -> None:
        self.events: list[str] = []
        self._fails = fails
        self._raises = raises

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            self.events.append("request")
            await respond(send, scope["state"]["name"].encode())
            return
        for _ in range(2):
            kind = (await receive())["type"]
            self.events.append(kind)
            scope["state"]["name"] = "of the app"
            if kind == self._fails:
                await send({"type": f"{kind}.failed", "message": "no database"})
                if self._raises:
                    raise Failure(kind)
                return
            await send({"type": f"{kind}.complete"})


ALL = ["lifespan.startup", "request", "lifespan.shutdown"]


def test_the_lifespan_begins_with_the_block_and_ends_with_it(run: Run) -> None:
    app = Lifespan()
    with headgate.Client(app=app) as client:
        assert ["lifespan.startup"] == app.events
        assert "of the app" == client.get("/").text
    assert ALL == app.events

    async def main() -> None:
        app = Lifespan()
        async with headgate.AsyncClient(app=app) as client:
            assert ["lifespan.startup"] == app.events
            await client.get("/")
        assert ALL == app.events

    run(main())


def test_without_a_block_the_first_request_begins_the_lifespan(run: Run) -> None:
    app = Lifespan()
    client = headgate.Client(app=app)
    assert [] == app.events
    client.get("/")
    client.close()
    client.close()
    assert ALL == app.events

    async def main() -> None:
        app = Lifespan()
        client = headgate.AsyncClient(app=app)
        await asyncio.gather(client.get("/"), client.get("/"))
        await client.aclose()
        await client.aclose()
        assert [ALL[0], "request", *ALL[1:]] == app.events

    run(main())


def test_a_closed_client_runs_no_startup(run: Run) -> None:
    app = Lifespan()
    client = headgate.Client(app=app)
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"), client:
        pass

    async def main() -> None:
        client = headgate.AsyncClient(app=app)
        await client.aclose()
        with pytest.raises(RuntimeError, match="the client is closed"):
            async with client:
                pass

    run(main())
    assert [] == app.events


def test_the_lifespan_can_be_left_to_others() -> None:
    events = []

    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        events.append((scope["type"], "state" in scope))
        await respond(send)

    with headgate.Client(app=AsgiApp(app, lifespan=False)) as client:
        client.get("/")
    assert [("http", False)] == events


@pytest.mark.parametrize("raises", [False, True])
def test_a_failed_startup_is_raised_by_the_block_and_by_each_call(raises: bool, run: Run) -> None:
    expected = pytest.raises(Failure if raises else RuntimeError, match="startup" if raises else "no database")
    with expected, headgate.Client(app=Lifespan("lifespan.startup", raises=raises)):
        pass
    client = headgate.Client(app=Lifespan("lifespan.startup", raises=raises))
    for _ in range(2):
        with expected:
            client.get("/")
    client.close()

    async def main() -> None:
        with expected:
            async with headgate.AsyncClient(app=Lifespan("lifespan.startup", raises=raises)):
                pass

    run(main())


def test_a_startup_that_hangs_is_ended_and_closes_the_client(run: Run) -> None:
    async def app(scope: Scope, _receive: Receive, _send: Send) -> None:
        assert "lifespan" == scope["type"]
        await asyncio.Event().wait()

    expected = pytest.raises(
        RuntimeError, match=r"startup of the app failed: it took more than 0\.2 s, the total_timeout of the client"
    )
    threads = threading.active_count()
    client = headgate.Client(app=app, total_timeout=0.2)
    with expected, client:
        pass
    assert client.is_closed
    assert threads == threading.active_count()

    async def main() -> None:
        client = headgate.AsyncClient(app=app, total_timeout=0.2)
        with expected:
            async with client:
                pass
        assert client.is_closed
        assert {asyncio.current_task()} == asyncio.all_tasks()

    run(main())


def test_a_failed_startup_is_noticed_at_once_and_its_shutdown_is_not_run(run: Run) -> None:
    received = []

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        await send({"type": "lifespan.startup.failed", "message": "no database"})
        received.append(await receive())

    began = time.monotonic()
    client = headgate.Client(app=app)
    with pytest.raises(RuntimeError, match="the startup of the app failed: no database"), client:
        pass

    async def main() -> None:
        with pytest.raises(RuntimeError, match="the startup of the app failed: no database"):
            async with headgate.AsyncClient(app=app):
                pass

    run(main())
    assert [] == received
    assert time.monotonic() - began < 4


def test_the_error_of_one_of_many_requests_has_the_exception_as_its_cause_and_no_internal_name() -> None:
    @http
    async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
        raise Failure("boom")

    with headgate.Client(app=app, retries=0) as client:
        error = next(client.fetch_many(["/"])).error
    assert "http://testserver/: the app raised Failure: boom" == str(error)
    assert error is not None
    assert isinstance(error.__cause__, Failure)


@pytest.mark.parametrize("raises", [False, True])
def test_a_failed_shutdown_is_raised_by_close(raises: bool, run: Run) -> None:
    expected = pytest.raises(Failure if raises else RuntimeError, match="shutdown" if raises else "no database")
    client = headgate.Client(app=Lifespan("lifespan.shutdown", raises=raises))
    client.get("/")
    with expected:
        client.close()
    client.close()

    async def main() -> None:
        client = headgate.AsyncClient(app=Lifespan("lifespan.shutdown", raises=raises))
        await client.get("/")
        with expected:
            await client.aclose()

    run(main())


def test_many_requests_and_tables_go_to_the_app() -> None:
    @http
    async def app(scope: Scope, _receive: Receive, send: Send) -> None:
        await respond(send, scope["path"].encode())

    with headgate.Client(app=app) as client:
        paths = [f"/{number}" for number in range(300)]
        assert paths == [outcome.unwrap().text for outcome in client.fetch_many(paths, ordered=True)]
        results = pa.table(client.fetch_table(pa.table({"url": paths})))
        assert sorted(path.encode() for path in paths) == sorted(results["body"].to_pylist())
        batches = client.fetch_many(paths).to_arrow_batches()
        assert 300 == sum(pa.record_batch(batch).num_rows for batch in batches)


def test_an_async_client_makes_many_requests_to_the_app(run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(app=echo) as client:
            responses = await asyncio.gather(*(client.get(f"/{number}") for number in range(200)))
            assert {f"/{number}" for number in range(200)} == {response.json()["path"] for response in responses}
            async with client.fetch_many(f"/{number}" for number in range(200)) as outcomes:
                assert 200 == sum([outcome.unwrap().is_success async for outcome in outcomes])

    run(main())


def test_a_client_of_several_loops_one_after_another() -> None:
    client = headgate.AsyncClient(app=Lifespan())

    async def use() -> str:
        return (await client.get("/")).text

    assert ["of the app"] * 2 == [asyncio.run(use()) for _ in range(2)]
    asyncio.run(client.aclose())


def test_a_loop_that_runs_serves_the_requests_of_others() -> None:
    async def main() -> None:
        async with headgate.AsyncClient(app=echo) as client:
            await client.get("/")

            async def other() -> str:
                path: str = (await client.get("/other")).json()["path"]
                return path

            assert "/other" == await asyncio.to_thread(asyncio.run, other())

    asyncio.run(main())


def test_requests_in_flight_end_with_the_client(run: Run) -> None:
    async def main() -> None:
        entered, cancelled = asyncio.Event(), asyncio.Event()

        @http
        async def app(_scope: Scope, _receive: Receive, _send: Send) -> None:
            entered.set()
            try:
                await asyncio.sleep(3600)
            finally:
                cancelled.set()

        client = headgate.AsyncClient(app=app)
        call = asyncio.create_task(client.get("/"))
        await entered.wait()
        await client.aclose()
        assert cancelled.is_set()
        with pytest.raises((headgate.RequestError, RuntimeError)):
            await call

    run(main())


@pytest.mark.parametrize("given", ["module:app", 7])
def test_what_can_not_be_called_is_no_app(given: Any) -> None:
    with pytest.raises(TypeError, match="app must be an ASGI application"):
        headgate.Client(app=given)


def test_a_fork_serves_the_app_itself(tmp_path: Path) -> None:
    program = """
import warnings; warnings.simplefilter("ignore")
import os, headgate

async def app(scope, receive, send):
    assert scope["type"] == "http"
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})

client = headgate.Client(app=app)
assert str(os.getpid()) == client.get("/").text
child = os.fork()
if child == 0:
    os._exit(7 if client.get("/").text == str(os.getpid()) else 1)
assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert str(os.getpid()) == client.get("/").text
print("well")
"""
    assert "well\n" == printed_by(program, tmp_path)


PROGRAM = """
import warnings; warnings.filterwarnings("ignore", "this headgate is a debug build")
import asyncio, headgate

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        return
    await send({"type": "http.response.start", "status": 200})
    await send({"type": "http.response.body", "body": b"served"})
"""


@pytest.mark.parametrize(
    "use",
    [
        "print(headgate.Client(app=app).get('/').text)",
        "client = headgate.Client(app=app)\nprint(client.get('/').text)",
        "async def main():\n    print((await headgate.AsyncClient(app=app).get('/')).text)\nasyncio.run(main())",
        "c = headgate.AsyncClient(app=app)\nasync def main(): print((await c.get('/')).text)\nasyncio.run(main())",
    ],
)
def test_a_program_may_end_without_closing_its_client(use: str, tmp_path: Path) -> None:
    assert "served\n" == printed_by(PROGRAM + use, tmp_path)


def test_nothing_is_left_open() -> None:
    def once() -> None:
        with headgate.Client(app=echo) as client:
            assert 50 == sum(1 for _ in client.fetch_many(f"/{number}" for number in range(50)))

    once()
    gc.collect()
    before, threads = len(list(Path("/proc/self/fd").iterdir())), threading.active_count()
    for _ in range(3):
        once()
    gc.collect()
    # What earlier tests have left may be closed meanwhile.
    assert before >= len(list(Path("/proc/self/fd").iterdir()))
    assert threads >= threading.active_count()


def test_an_upload_reaches_the_app_as_it_is_made(run: Run) -> None:
    @http
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        first = await receive()
        arrived.set()
        assert first["more_body"]
        await respond(send, first["body"] + await body_of(receive))

    arrived = threading.Event()

    def content() -> Iterator[bytes]:
        yield b"first "
        assert arrived.wait(30)
        yield b"second"

    with headgate.Client(app=app) as client:
        assert "first second" == client.post("/", content=content()).text

    async def main() -> None:
        async def content() -> AsyncIterator[bytes]:
            yield b"first "
            await asyncio.to_thread(arrived.wait, 30)
            yield b"second"

        arrived.clear()
        async with headgate.AsyncClient(app=app) as client:
            assert "first second" == (await client.post("/", content=content())).text
            with pytest.raises(AssertionError):
                await client.post("/", content=b"")

    run(main())
