"""`fetch_many` with mistakes: in a request, in the source of the requests, or in the order of calls."""

import asyncio
import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headgate
from support.run import serving

Outcomes = list[headgate.Outcome]
Many = Callable[[Any, Outcomes], None]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(params=["threads", "loop"])
def many(request: pytest.FixtureRequest, server: str) -> Many:
    """Adds outcomes of requests to a list, until they end or an error is raised."""

    def in_thread(requests: Any, into: Outcomes) -> None:
        with headgate.Client(base_url=server) as client:
            into.extend(client.fetch_many(requests))

    def in_loop(requests: Any, into: Outcomes) -> None:
        async def main() -> None:
            async with headgate.AsyncClient(base_url=server) as client:
                async for outcome in client.fetch_many(requests):
                    into.append(outcome)

        asyncio.run(main())

    return in_thread if request.param == "threads" else in_loop


def broken(good: int) -> Iterator[str]:
    yield from (f"/{n}" for n in range(good))
    raise LookupError("there is no more of this file")


@pytest.mark.parametrize("good", [0, 1, 10, 3000])
def test_requests_before_an_error_of_the_source_are_done_before_it_is_raised(many: Many, good: int) -> None:
    outcomes: Outcomes = []
    with pytest.raises(LookupError, match="no more of this file"):
        many(broken(good), outcomes)
    assert {f"/{n}" for n in range(good)} == {outcome.request.url for outcome in outcomes}
    assert all(outcome.unwrap().is_success for outcome in outcomes)


def test_batches_of_rows_before_an_error_of_the_source_come_before_the_error(server: str) -> None:
    rows = list[int]()
    with headgate.Client(base_url=server) as client:
        batches = client.fetch_many(broken(3000)).to_arrow_batches()
        with pytest.raises(LookupError, match="no more of this file"):
            rows.extend(batch.num_rows for batch in batches)
    assert 3000 == sum(rows)


BAD: list[tuple[Any, str, object]] = [
    (headgate.Request("/1", timeout="5", tag=1), "timeout must be a number of seconds, not str", 1),  # type: ignore[arg-type]
    (headgate.Request("/1", redirects=True, tag=2), "redirects must be text such as 'none', not bool", 2),  # type: ignore[arg-type]
    (headgate.Request("/1", method=7, tag=3), "method must be text such as 'POST', not int", 3),  # type: ignore[arg-type]
    ({"url": "/1", "tag": 4, "verify": False}, "a request has no 'verify': the client has insecure=True", 4),
    ({"tag": 5}, "a request that is a mapping needs a 'url'", 5),
    (7, "a request is a URL, a headgate.Request or a mapping, not int", None),
    ({"url": "/1", "json": {1, 2}, "tag": 6}, "not JSON serializable", 6),
]


@pytest.mark.parametrize(("bad", "why", "tag"), BAD, ids=[why for _, why, _ in BAD])
def test_a_request_that_cannot_be_sent_fails_and_the_rest_continue(
    many: Many, bad: object, why: str, tag: object
) -> None:
    outcomes: Outcomes = []
    many(["/1", bad, "/2"], outcomes)
    wrong = [outcome for outcome in outcomes if outcome.error is not None]
    assert [2, 1] == [len(outcomes) - len(wrong), len(wrong)]
    assert isinstance(wrong[0].error, headgate.InvalidRequest)
    assert why in str(wrong[0].error)
    assert tag == wrong[0].tag


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ({"tag": 5}, "a request that is a mapping needs a 'url' (index 1)"),
        ({"url": None}, "url must be text, not None (index 1)"),
        ("", "not an absolute URL: it must start with http:// or https:// (index 1)"),
    ],
)
def test_the_error_of_a_request_without_a_url_begins_with_the_cause_and_has_its_index(bad: Any, why: str) -> None:
    with headgate.Client(retries=0) as client:
        outcome = list(client.fetch_many(["http://127.0.0.1:1/", bad], ordered=True))[1]
    assert (why, "") == (str(outcome.error), outcome.error and outcome.error.url)
    assert repr(outcome).startswith("<Outcome of index 1: InvalidRequest(")


def test_the_error_of_a_single_request_without_a_url_begins_with_the_cause() -> None:
    with headgate.Client() as client, pytest.raises(headgate.InvalidRequest, match=r"^not an absolute URL: "):
        client.get("")


def test_in_batches_it_is_a_row_with_its_error(server: str) -> None:
    pa = pytest.importorskip("pyarrow")
    requests: Any = ["/1", {"tag": 5}, "/2"]
    with headgate.Client(base_url=server) as client:
        table = pa.table(client.fetch_many(requests).to_arrow_batches())
    rows = table.select(["row", "error", "error_message"]).to_pylist()
    assert [(1, "invalid_request")] == [(row["row"], row["error"]) for row in rows if row["error"]]
    assert any("needs a 'url'" in str(row["error_message"]) for row in rows)


@pytest.mark.parametrize("one", ["/1", b"/1", {"url": "/1"}, headgate.Request("/1")])
def test_one_request_is_not_taken_for_many(many: Many, one: object) -> None:
    with pytest.raises(TypeError, match="for one, give a list with it"):
        many(one, [])


def test_send_takes_requests_only(server: str) -> None:
    with headgate.Client(base_url=server) as client, pytest.raises(TypeError, match="for a URL there is get"):
        client.send("/1")  # type: ignore[arg-type] # the mistake


def test_a_query_with_a_url_in_it_is_relative_all_the_same(server: str) -> None:
    with headgate.Client(base_url=server) as client:
        assert "/echo?next=https://example.com/" == client.get("/echo?next=https://example.com/").json()["path"]


def test_what_is_submitted_before_finishing_is_fetched(server: str) -> None:
    for _ in range(200):
        with headgate.Client(base_url=server, threads=1) as client:
            outcomes = client.fetch_many()

            def submit(outcomes: headgate.FetchMany = outcomes) -> None:
                outcomes.submit("/1")
                outcomes.finish()

            thread = threading.Thread(target=submit)
            thread.start()
            assert 1 == len(list(outcomes))
            thread.join()


def test_those_that_wait_for_an_earlier_one_are_no_more_than_there_is_memory_for(server: str) -> None:
    urls = [f"{server}/delay/1", *(f"{server}/bytes/4000000" for _ in range(40))]
    with headgate.Client(concurrency=8, max_memory=16_000_000) as client:
        many = client.fetch_many(iter(urls), ordered=True)
        statuses = [(outcome.unwrap().status_code, outcome.request.url) for outcome in many]
    assert [(200, url) for url in urls] == statuses


def test_a_response_and_its_error_can_be_pickled(server: str) -> None:
    with headgate.Client(base_url=server) as client:
        response = client.get("/redirect/1")
        again = pickle.loads(pickle.dumps(response))  # noqa: S301 - our own
        for name in ("status_code", "content", "text", "url", "headers", "history", "elapsed", "attempts", "encoding"):
            assert str(getattr(response, name)) == str(getattr(again, name))
        with client.stream("GET", "/hello") as streamed:
            with pytest.raises(RuntimeError, match="was not read"):
                pickle.dumps(streamed)
            streamed.read()
        assert b"Hello, World!" == pickle.loads(pickle.dumps(streamed)).content  # noqa: S301 - as above
        with pytest.raises(headgate.StatusError) as raised:
            client.get("/status/404").raise_for_status()
    error = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own
    assert (str(raised.value), 404, f"{server}/status/404", 1) == (
        str(error),
        error.response.status_code,
        error.url,
        error.attempts,
    )
    assert error.elapsed_s > 0


@pytest.mark.parametrize("hooks", [{}, {"request": lambda _: None}], ids=["plain", "hooks"])
@pytest.mark.parametrize(
    "wrong",
    [
        lambda server: f"{server}/caf\udce9",
        lambda server: headgate.Request(f"{server}/", headers={"X-\udce9": "1"}),
        lambda server: headgate.Request(f"{server}/", method="\udce9"),
        lambda server: headgate.Request(f"{server}/", params="a=\udce9"),
        lambda server: headgate.Request(f"{server}/", cookies={"a": "\udce9"}),
        lambda server: headgate.Request(f"{server}/", json={"a": "\udce9"}),
    ],
    ids=["url", "header", "method", "params", "cookie", "json"],
)
def test_text_that_is_no_unicode_fails_its_request_alone(wrong: Any, hooks: Any) -> None:
    with serving() as server, headgate.Client(hooks=hooks) as client:
        outcomes = client.fetch_many([f"{server}/1", wrong(server), f"{server}/2"], ordered=True)
        assert [None, "invalid_request", None] == [outcome.error and outcome.error.kind for outcome in outcomes]
        given = wrong(server)
        request = headgate.Request(given) if isinstance(given, str) else given
        with pytest.raises(headgate.InvalidRequest):
            client.send(request)


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("concurrency", [1, 2, 3, 4, 5, 33])
def test_requests_that_wait_for_each_other_run_at_once_up_to_the_concurrency(concurrency: int, threads: int) -> None:
    waiting: list[asyncio.Future[None]] = []

    async def app(_scope: Any, receive: Any, send: Any) -> None:
        await receive()
        waiting.append(asyncio.get_running_loop().create_future())
        arrived = waiting[-1]
        if len(waiting) == concurrency:
            for request in waiting:
                request.set_result(None)
            waiting.clear()
        await arrived
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    app_without_lifespan = headgate.AsgiApp(app, lifespan=False)
    with headgate.Client(app=app_without_lifespan, concurrency=concurrency, threads=threads, timeout=20) as client:
        outcomes = client.fetch_many(["/"] * (10 * concurrency))
        assert [204] * (10 * concurrency) == [outcome.unwrap().status_code for outcome in outcomes]
