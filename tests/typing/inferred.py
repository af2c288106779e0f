"""The types that checkers infer for the client and for the functions for many tasks. The file is checked, never run."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any, Self, assert_type
from urllib.parse import urlsplit

import headgate
from headgate import (
    CompletedFutures,
    ConcurrencyLimit,
    Headers,
    MapIterator,
    Outcome,
    PreparedRequest,
    Rate,
    Redirect,
    Request,
    RequestError,
    Response,
    Retry,
    TaskOutcome,
    TaskResults,
    TaskStatistics,
    amap,
    as_completed,
    for_each,
    gather,
    limited_as_completed,
)


async def measure(word: str) -> int:
    return len(word)


def measure_later(word: str) -> "asyncio.Future[int]":
    return asyncio.ensure_future(measure(word))


async def repeat(times: int, word: str) -> list[str]:
    return [word] * times


async def first(items: list[str] | str) -> str:
    return items[0]


@dataclass
class Client:
    base: str

    async def fetch(self, path: str) -> bytes:
        return (self.base + path).encode()

    async def __call__(self, path: str) -> bytes:
        return await self.fetch(path)


class Words:
    """An async iterator that is no generator."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> str:
        raise StopAsyncIteration


async def words() -> AsyncIterator[str]:
    yield "one"


def coroutines() -> Iterator[Coroutine[Any, Any, int]]:
    yield measure("one")


async def more_coroutines() -> AsyncIterator[Coroutine[Any, Any, int]]:
    yield measure("one")


async def amap_gives_what_the_function_returns(urls: list[str]) -> None:
    assert_type(amap(measure, urls, limit=1), TaskResults[int])
    assert_type(amap(measure, urls, limit=1, errors="raise"), TaskResults[int])
    assert_type(amap(measure, urls, limit=1, errors="skip", max_failures=3), TaskResults[int])
    async with amap(measure, urls, limit=1) as results:
        assert_type(results, TaskResults[int])
        async for result in results:
            assert_type(result, int)
        assert_type([result async for result in results], list[int])
        assert_type(results.stop(), list[Any])
        assert_type(results.statistics(), TaskStatistics)


async def amap_gives_outcomes_where_errors_are_asked_for(urls: list[str]) -> None:
    async with amap(measure, urls, limit=1, errors="yield") as outcomes:
        assert_type(outcomes, TaskResults[TaskOutcome[str, int]])
        async for outcome in outcomes:
            assert_type(outcome.item, str)
            assert_type(outcome.value, int | None)
            assert_type(outcome.unwrap(), int)
            assert_type(outcome.error, Exception | None)


def amap_takes_all_that_is_called_and_gives_an_awaitable() -> None:
    client = Client("http://localhost/")
    assert_type(amap(measure_later, ["one"], limit=1), TaskResults[int])
    assert_type(amap(partial(repeat, 3), ["one"], limit=1), TaskResults[list[str]])
    assert_type(amap(client.fetch, ["one"], limit=1), TaskResults[bytes])
    assert_type(amap(client, ["one"], limit=1), TaskResults[bytes])
    assert_type(amap(lambda word: measure(word), ["one"], limit=1), TaskResults[int])  # noqa: PLW0108 - it is the case
    assert_type(amap(asyncio.sleep, [0.1], limit=1), TaskResults[None])


def amap_takes_items_of_every_kind_of_source() -> None:
    assert_type(amap(measure, words(), limit=1), TaskResults[int])
    assert_type(amap(measure, Words(), limit=1), TaskResults[int])
    assert_type(amap(measure, (word for word in ("one", "two")), limit=1), TaskResults[int])
    assert_type(amap(measure, {"one": 1}, limit=1, errors="yield"), TaskResults[TaskOutcome[str, int]])
    assert_type(amap(first, [["one"], ["two"]], limit=1), TaskResults[str])


def amap_takes_its_options() -> None:
    assert_type(
        amap(
            measure,
            ["one"],
            limit=ConcurrencyLimit(10),
            ordered=True,
            window=5,
            timeout=timedelta(seconds=1),
            retry=Retry(3, timedelta(seconds=0.5), max_backoff=timedelta(minutes=1), on=(OSError, TimeoutError)),
            rate=Rate(10, per=timedelta(seconds=1), burst=100),
            cost=len,
            key=lambda word: word[0],
            per_key=2,
        ),
        TaskResults[int],
    )


async def as_completed_gives_coroutines_and_futures() -> None:
    assert_type(as_completed(coroutines(), limit=1), CompletedFutures[int])
    assert_type(as_completed(more_coroutines(), limit=1, buffer=0, timeout=1.5), CompletedFutures[int])
    assert_type(as_completed([measure_later("one")], limit=1), CompletedFutures[int])
    assert_type(limited_as_completed(coroutines(), 1), CompletedFutures[int])
    for coroutine in as_completed(coroutines(), limit=1):
        assert_type(await coroutine, int)
    async with as_completed(coroutines(), limit=1) as futures:
        async for future in futures:
            assert_type(future, asyncio.Future[int])
            assert_type(future.result(), int)


async def gather_gives_errors_only_where_they_are_asked_for(*, is_asked_for: bool) -> None:
    assert_type(await gather(measure("one"), measure_later("two"), limit=1), list[int])
    assert_type(await gather(*coroutines(), limit=1, return_exceptions=False), list[int])
    assert_type(await gather(*coroutines(), limit=1, return_exceptions=True), list[int | BaseException])
    assert_type(await gather(*coroutines(), limit=1, return_exceptions=is_asked_for), list[int | BaseException])
    assert_type(await gather(measure("one"), repeat(2, "a"), limit=1), list[int | list[str]])
    assert_type(await gather(measure("one"), repeat(2, "a"), first("a"), limit=1), list[int | list[str] | str])
    one, many, text, nothing = measure("one"), repeat(2, "a"), first("a"), asyncio.sleep(0)
    page, later = Client("/").fetch("/"), measure_later("two")
    assert_type(await gather(one, many, text, nothing, page, limit=1), list[int | list[str] | str | bytes | None])
    assert_type(
        await gather(one, many, text, nothing, page, later, limit=1), list[int | list[str] | str | bytes | None]
    )
    assert_type(
        await gather(one, many, text, nothing, page, later, limit=1, return_exceptions=True),
        list[int | list[str] | str | bytes | BaseException | None],
    )
    assert_type(
        await gather(measure("one"), repeat(2, "a"), limit=1, return_exceptions=True),
        list[int | list[str] | BaseException],
    )


async def for_each_gives_figures() -> None:
    assert_type(await for_each(measure, words(), limit=1, errors="skip", max_failures=1), TaskStatistics)
    assert_type(await for_each(measure_later, ["one"], limit=ConcurrencyLimit(1)), TaskStatistics)
    assert_type(await for_each(measure, ["one"], limit=1, rate=Rate(1), cost=len, key=len, per_key=1), TaskStatistics)


def map_gives_what_the_function_returns() -> None:
    with headgate.map(measure, ["one"], limit=1) as results:
        assert_type(results, MapIterator[int])
        for result in results:
            assert_type(result, int)
    assert_type(headgate.map(measure, words(), limit=1, errors="skip"), MapIterator[int])
    assert_type(list(headgate.map(partial(repeat, 3), ["one"], limit=1)), list[list[str]])
    outcomes = headgate.map(measure, ["one"], limit=1, errors="yield", loop_factory=asyncio.new_event_loop)
    assert_type(outcomes, MapIterator[TaskOutcome[str, int]])
    assert_type(next(outcomes).unwrap(), int)


async def retry_keeps_the_signature_of_what_it_calls() -> None:
    retry = Retry(5, lambda attempt, error: attempt + len(error.args), on=lambda error: bool(error.args))
    assert_type(await retry.call(measure, "one"), int)
    assert_type(await retry.call(repeat, 3, word="one"), list[str])
    assert_type(retry.delay(1, OSError()), float | None)
    assert_type(Retry(3, lambda attempt, _: timedelta(seconds=attempt)).delay(1, OSError()), float | None)


def sign(request: PreparedRequest) -> None:
    assert_type(request.content, bytes | None)
    request.headers["X-Signature"] = request.method + request.url


async def sign_later(request: PreparedRequest) -> PreparedRequest:
    return request


class Tokens:
    def token(self) -> str:
        return "abc"


class AsyncTokens:
    ttl = 60

    async def token(self) -> str:
        return "abc"


def auth_is_a_pair_a_function_or_an_object_with_tokens() -> None:
    headgate.Client(auth=("ann", b"secret"))
    headgate.Client(auth=sign)
    headgate.Client(auth=Tokens())
    headgate.Client(auth=AsyncTokens())
    headgate.AsyncClient(auth=sign)
    headgate.AsyncClient(auth=sign_later)
    headgate.AsyncClient(auth=AsyncTokens())
    headgate.fetch("urls.txt", "results", auth=Tokens())
    headgate.map_batches(None, auth=("ann", "secret"))
    Request("/", auth=sign_later)
    Request("/", auth=None)


async def an_asynchronous_function_is_for_an_async_client(client: headgate.AsyncClient) -> None:
    assert_type(await client.get("/", auth=sign_later), Response)


def a_client_gives_responses(client: headgate.Client) -> None:
    with client as same:
        assert_type(same, headgate.Client)
    response = client.get("/", params={"page": [1, 2]}, headers={"Accept": "*/*"}, timeout=1, auth=("ann", "secret"))
    assert_type(response, Response)
    assert_type(response.status_code, int)
    assert_type(response.headers, Headers)
    assert_type(response.headers["content-type"], str)
    assert_type(response.headers.get("content-type"), str | None)
    assert_type(response.headers.get_list("set-cookie"), list[str])
    assert_type(response.content, bytes)
    assert_type(response.text, str)
    assert_type(response.json(), Any)
    assert_type(response.elapsed, timedelta)
    assert_type(response.history, list[Redirect])
    assert_type(response.raise_for_status(), Response)
    assert_type(client.post("/", json={"a": 1}), Response)
    assert_type(client.post("/", content=Path("file")), Response)
    assert_type(client.post("/", content=(b"piece" for _ in range(2))), Response)
    with Path("file").open("rb") as opened:
        assert_type(client.post("/", content=opened), Response)
        assert_type(client.post("/", files={"a": ("b", opened, None, {"X-Part": "1"})}, data={"c": "d"}), Response)
    assert_type(client.get("/", auth=sign), Response)
    assert_type(client.get("/", auth=lambda request: request), Response)
    assert_type(client.get("/", auth=None), Response)
    assert_type(headgate.get("http://localhost/", auth=Tokens()), Response)
    assert_type(client.request("PUT", "/", content=b"a", redirects="none"), Response)
    assert_type(client.get("/", follow_redirects=False), Response)
    assert_type(headgate.get("http://localhost/", allow_redirects=False, verify=True), Response)
    assert_type(client.send(Request("/", tag=1)), Response)
    assert_type(client.send(client.build_request("GET", urlsplit("/"), params="a=1"), redirects="none"), Response)
    assert_type(client.get("/", headers={"Accept": None}).links["next"]["url"], str)
    assert_type(client.get("/", headers=[("Accept", None), ("X-Own", "1")]), Response)
    client.headers["X-Own"] = "1"
    client.headers = {"X-Own": "1"}
    assert_type(client.headers["x-own"], str)
    assert_type((client.base_url, client.is_closed), tuple[str, bool])
    assert_type(client.statistics(), headgate.Snapshot)


def log_attempt(attempt: headgate.Attempt) -> None:
    assert_type(attempt.retry_in_s, float | None)


async def log_error_later(error: RequestError) -> None: ...


def hooks_are_functions_or_lists_of_them() -> None:
    headgate.Client(hooks={"request": sign, "attempt": [log_attempt], "response": Response.raise_for_status})
    headgate.AsyncClient(hooks={"request": [sign, sign_later], "error": log_error_later})
    hooks: headgate.ClientHooks = {"request": sign, "attempt": [log_attempt], "response": Response.raise_for_status}
    headgate.Client(hooks=hooks)


def files_of_several_types_are_one_mapping() -> None:
    notes = "notes.txt", "first", "text/plain", {"Content-Language": "en"}
    headgate.post("http://localhost/", files={"a": Path("x"), "b": ("n", b"x", "text/plain"), "c": notes})
    headgate.post("http://localhost/", files=[("a", Path("x")), ("b", ("n", b"x", "text/plain"))])


def cookies_are_given_in_many_forms(client: headgate.Client, jar: CookieJar) -> None:
    headgate.Client(cookies=True)
    headgate.Client(cookies={"a": "1"})
    headgate.Client(cookies=[("a", "1")])
    headgate.Client(cookies=jar)
    headgate.AsyncClient(cookies=client.cookies)
    Request("/", cookies=jar)
    assert_type(headgate.get("http://localhost/", cookies={"a": "1"}).cookies, headgate.Cookies)
    assert_type(client.cookies["a"], str)
    assert_type(client.cookies.get("a", domain="example.com"), str | None)
    assert_type(client.cookies.jar, CookieJar)
    assert_type(dict(headgate.Cookies(jar)), dict[str, str])


def many_requests_give_outcomes(client: headgate.Client) -> None:
    requests: list[str | Request | dict[str, Any]] = ["/", Request("/"), {"url": "/", "tag": 1}]
    with client.fetch_many(requests, ordered=True) as outcomes:
        assert_type(outcomes, headgate.FetchMany)
        for outcome in outcomes:
            assert_type(outcome, Outcome[Any])
            assert_type(outcome.request, Request[Any])
            assert_type(outcome.response, Response | None)
            assert_type(outcome.error, RequestError | None)
            assert_type(outcome.unwrap(), Response)
            assert_type(outcome.tag, Any)
            outcomes.submit("/more")
    assert_type(client.fetch_many(f"/{n}" for n in range(3)), headgate.FetchMany[None])
    assert_type(client.fetch_many(), headgate.FetchMany)


def an_outcome_has_a_response_or_an_error(outcome: Outcome, of_item: headgate.Outcome[int]) -> None:
    if outcome.error is None:
        assert_type(outcome.response, Response)
    else:
        assert_type(outcome.error, RequestError)
        assert_type(outcome.response, None)
    if of_item.response is not None:
        assert_type(of_item.response, Response)
        assert_type(of_item.error, None)
        assert_type(of_item.tag, int)
    else:
        assert_type(of_item.error, RequestError)
    if isinstance(of_item, headgate.Failed):
        assert_type(of_item.error, RequestError)
    else:
        assert_type(of_item.unwrap(), Response)


def an_outcome_has_the_tag_of_its_request(client: headgate.Client) -> None:
    assert_type(Request("/", tag=7).tag, int)
    outcomes = client.fetch_many(Request(f"/{n}", tag=n) for n in range(3))
    assert_type(outcomes, headgate.FetchMany[int])
    for outcome in outcomes:
        assert_type(outcome.tag, int)
        assert_type(outcome.request, Request[int])
        outcomes.submit(Request("/more", tag=4))
    assert_type(next(client.fetch_many(["/"])).tag, None)
    assert_type(next(client.fetch_many([{"url": "/"}])).tag, Any)
    anything: Request = Request("/", tag="a")
    assert_type(anything, Request[Any])


async def a_client_in_a_loop_gives_the_same(client: headgate.AsyncClient) -> None:
    async with client as same:
        assert_type(same, headgate.AsyncClient)
    assert_type(await client.get("/"), Response)
    assert_type(await client.post("/", data={"a": "1"}), Response)
    assert_type(await asyncio.gather(client.get("/"), client.head("/")), tuple[Response, Response])
    async with client.fetch_many(words()) as outcomes:
        assert_type(outcomes, headgate.AsyncFetchMany[None])
        async for outcome in outcomes:
            assert_type(outcome.unwrap(), Response)
    assert_type(client.fetch_many([Request("/", tag=1.5)]), headgate.AsyncFetchMany[float])


async def streams_give_pieces(client: headgate.Client, in_loop: headgate.AsyncClient) -> None:
    with client.stream("GET", "/") as response:
        assert_type(response, headgate.StreamedResponse)
        assert_type(next(response.iter_bytes()), bytes)
        assert_type(next(response.iter_lines()), str)
        assert_type(response.read(), bytes)
    async with in_loop.stream("GET", "/") as streamed:
        assert_type(streamed, headgate.AsyncStreamedResponse)
        assert_type(await anext(streamed.aiter_bytes()), bytes)


async def application(scope: Any, receive: Any, send: Any) -> None: ...


async def applications_are_served() -> None:
    assert_type(headgate.Client(app=application), headgate.Client)
    assert_type(headgate.AsyncClient(app=headgate.AsgiApp(application, lifespan=False)), headgate.AsyncClient)


async def computed(request: headgate.testing.MockRequest) -> dict[str, list[str]] | None:
    assert_type(request.files["a"], list[headgate.testing.MockFile])
    return request.form if request.cookies else None


def mocks_have_routes(pieces: AsyncIterator[bytes]) -> None:
    with headgate.testing.mock(lambda request: request.path) as server:
        assert_type(server, headgate.testing.MockServer)
        assert_type(
            server.post("/a", data={"a": 1}, matches=lambda request: bool(request.content)), headgate.testing.Route
        )
        assert_type(server.get("/a", response=computed).pass_through(), headgate.testing.Route)
        assert_type(server.get("/a").respond(content=pieces, pause=1), headgate.testing.Route)
        assert_type(server.get("/a", content=[b"a"]), headgate.testing.Route)
        assert_type(server.pass_through(host="localhost"), headgate.testing.Route)


def functions_give_responses() -> None:
    assert_type(headgate.get("http://localhost/", timeout=1, headers={"a": "b"}, retries=0, insecure=True), Response)
    assert_type(headgate.post("http://localhost/", json={"a": 1}, rate="1/s"), Response)
    assert_type(headgate.request("PUT", "http://localhost/", content=b"a"), Response)


def errors_say_what_was_asked(error: headgate.ConnectTimeout, status: headgate.StatusError) -> None:
    caught: list[headgate.RequestError] = [error, status]
    timeouts: list[headgate.RequestTimeout | ConnectionError] = [error]
    assert_type(timeouts, list[headgate.RequestTimeout | ConnectionError])
    assert_type(caught[0].kind, str)
    assert_type(error.url, str)
    assert_type(error.attempts, int)
    assert_type(error.elapsed_s, float)
    assert_type(status.response, Response)


def tables_give_batches(table: object) -> None:
    with headgate.map_batches(table, url="http://localhost/{id}", concurrency=10) as batches:
        assert_type(batches, headgate.BatchIterator)
        for batch in batches:
            assert_type(batch.num_rows, int)
    assert_type(headgate.fetch_table(table), headgate.BatchTable)
    with headgate.Client() as client:
        assert_type(client.fetch_table(table), headgate.BatchTable)
        assert_type(client.fetch_many(["/"]).to_arrow_batches(), headgate.BatchIterator)


def jobs_give_summaries() -> None:
    assert_type(headgate.fetch("urls.txt", "out", concurrency=10), headgate.Summary)
    with headgate.start("urls.txt", "out") as run:
        assert_type(run, headgate.Run)
        assert_type(run.summary, headgate.Summary | None)
        assert_type(run.wait(timeout=1), headgate.Summary)
    assert_type(headgate.Job.open("out"), headgate.Job)
