"""The client for threads: `headgate.Client`."""

import json
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest

import headgate
from headgate.client._errors import CLASS_OF
from support.documents import table
from support.run import printed_by, serving, stats, wait_for, wait_for_requests

HELD = "/delay/3600"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[headgate.Client]:
    with headgate.Client(base_url=server) as client:
        yield client


def test_a_response_has_what_those_of_httpx_have(client: headgate.Client, server: str) -> None:
    response = client.get("/hello")

    assert (200, "OK", "HTTP/1.1") == (response.status_code, response.reason_phrase, response.http_version)
    assert (b"Hello, World!", "Hello, World!") == (response.content, response.text)
    assert f"{server}/hello" == response.url
    assert ("13", "13", ["13"]) == (
        response.headers["content-length"],
        response.headers["Content-Length"],
        response.headers.get_list("CONTENT-LENGTH"),
    )
    assert response.is_success
    assert not response.is_error
    assert response.elapsed.total_seconds() > 0
    assert [] == response.history
    assert response is response.raise_for_status()
    assert "<Response [200 OK]>" == repr(response)
    assert "200 OK" in response._repr_html_()


@pytest.mark.parametrize("method", ["get", "options", "post", "put", "patch", "delete"])
def test_each_method_sends_its_own_name(client: headgate.Client, method: str) -> None:
    assert method.upper() == getattr(client, method)("/echo").json()["method"]


def test_head_has_no_body(client: headgate.Client) -> None:
    response = client.head("/hello")
    assert (200, b"") == (response.status_code, response.content)


def test_a_request_is_sent_with_all_it_has(client: headgate.Client) -> None:
    response = client.post(
        "/echo?z=0", headers={"X-One": "1"}, params={"a": ["1", "2"], "b": True}, json={"ü": 1}, auth=("me", "secret")
    )

    seen = response.json()
    headers = {name.lower(): value for name, value in seen["headers"]}
    assert "/echo?z=0&a=1&a=2&b=true" == seen["path"]
    assert ("1", "application/json", "Basic bWU6c2VjcmV0") == (
        headers["x-one"],
        headers["content-type"],
        headers["authorization"],
    )
    assert {"ü": 1} == json.loads(seen["body"])


def test_a_form_is_encoded_and_one_with_files_has_parts(client: headgate.Client) -> None:
    plain = client.post("/echo", data={"a": "1 2", "b": ["x", "y"]}).json()
    parts = client.post("/echo", data={"a": "1"}, files={"f": ("n.txt", b"text", "text/plain")}).json()

    assert "a=1+2&b=x&b=y" == plain["body"]
    assert "application/x-www-form-urlencoded" in dict(map(tuple, plain["headers"])).values()
    assert 'form-data; name="f"; filename="n.txt"\r\nContent-Type: text/plain\r\n\r\ntext\r\n' in parts["body"]


def test_redirects_are_followed_unless_that_is_not_wanted(client: headgate.Client, server: str) -> None:
    followed, first = client.get("/redirect/2"), client.get("/redirect/2", redirects="none")

    assert (200, f"{server}/redirect/0") == (followed.status_code, followed.url)
    assert [(302, f"{server}/redirect/2"), (302, f"{server}/redirect/1")] == [
        (hop.status_code, hop.url) for hop in followed.history
    ]
    assert (302, f"{server}/redirect/2", []) == (first.status_code, first.url, first.history)
    assert first.headers["location"].endswith("/redirect/1")


def test_a_request_follows_redirects_where_its_client_does_not(server: str) -> None:
    with headgate.Client(base_url=server, redirects="none") as client:
        assert 302 == client.get("/redirect/1").status_code
        followed = client.get("/redirect/1", redirects="follow")
        assert (200, 1) == (followed.status_code, len(followed.history))


def test_a_status_that_is_no_success_is_raised_on_demand(client: headgate.Client) -> None:
    response = client.get("/status/404")

    assert response.is_client_error
    with pytest.raises(headgate.StatusError, match=r"^404 Not Found: http") as raised:
        response.raise_for_status()
    assert response is raised.value.response
    assert isinstance(raised.value, headgate.RequestError)
    assert isinstance(raised.value, RuntimeError)
    assert ("status:404", response.url, 1) == (raised.value.kind, raised.value.url, raised.value.attempts)


def test_a_failure_that_may_pass_is_retried(server: str) -> None:
    with headgate.Client(base_url=server, retries=2, retry_delay=0.001) as client:
        response = client.get("/status/503")
    assert (503, 3) == (response.status_code, response.attempts)


def builtin_bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__ == "builtins"]


def test_every_kind_of_error_has_a_class_of_its_own() -> None:
    # `test_documents.py` tests that this table has the kinds of the engine.
    kinds = [kind.strip("`") for kind, _ in table("docs/results.md", "`error`", "when")]
    assert sorted(kinds) == sorted(CLASS_OF)
    for kind, of_kind in CLASS_OF.items():
        assert kind == of_kind.kind
        assert of_kind.__name__ in dir(headgate)
        assert any(issubclass(base, Exception) and base is not Exception for base in builtin_bases(of_kind))


def test_errors_are_what_people_catch_and_name_the_request(server: str) -> None:
    cases = [
        (headgate.ConnectError, ConnectionError, "http://127.0.0.1:1/"),
        (headgate.InvalidRequest, ValueError, "ftp://host/"),
        (headgate.ConnectionClosed, ConnectionError, f"{server}/fault/reset-mid-body"),
    ]
    with headgate.Client(retries=0) as client:
        for ours, builtin, url in cases:
            with pytest.raises(ours) as raised:
                client.get(url)
            assert isinstance(raised.value, builtin)
            assert url == raised.value.url
            again = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 - our own
            assert (type(raised.value), str(raised.value), url) == (type(again), str(again), again.url)


def test_a_request_has_a_time_of_its_own(server: str) -> None:
    with headgate.Client(retries=0) as client:
        for timeout in (0.05, timedelta(milliseconds=50)):
            with pytest.raises(headgate.ReadTimeout) as raised:
                client.get(server + HELD, timeout=timeout)
            assert isinstance(raised.value, headgate.RequestTimeout)
            assert raised.value.elapsed_s >= 0.05


def test_a_request_has_a_time_over_all_its_attempts(server: str) -> None:
    with headgate.Client(total_timeout=0.05) as client, pytest.raises(headgate.TotalTimeout) as raised:
        client.get(server + HELD)
    assert isinstance(raised.value, headgate.RequestTimeout)


def test_one_client_serves_64_threads(client: headgate.Client) -> None:
    together = threading.Barrier(64)

    def ask(thread: int) -> list[str]:
        together.wait()
        return [client.post("/echo", content=f"{thread} {each}").json()["body"] for each in range(10)]

    with ThreadPoolExecutor(64) as threads:
        bodies = list(threads.map(ask, range(64)))
    assert [[f"{thread} {each}" for each in range(10)] for thread in range(64)] == bodies


def test_fetch_many_yields_outcomes_as_they_finish_each_with_its_tag(client: headgate.Client) -> None:
    requests = (headgate.Request(f"/echo?{each}", tag=each) for each in range(3000))

    outcomes = list(client.fetch_many(requests))

    assert set(range(3000)) == {outcome.tag for outcome in outcomes}
    assert all(outcome.unwrap().json()["path"] == f"/echo?{outcome.tag}" for outcome in outcomes)
    assert all(outcome.error is None for outcome in outcomes)
    assert all((outcome.index, 1) == (outcome.tag, outcome.attempts) for outcome in outcomes)
    assert all(outcome.elapsed_s > 0 for outcome in outcomes)


def test_many_may_be_urls_requests_and_mappings(client: headgate.Client) -> None:
    requests: list[headgate.Request | str | dict[str, str]] = [
        "/echo",
        headgate.Request("/echo", method="PUT"),
        {"url": "/echo", "method": "POST", "content": "a"},
    ]
    outcomes = client.fetch_many(requests, ordered=True)
    assert ["GET", "PUT", "POST"] == [outcome.unwrap().json()["method"] for outcome in outcomes]


def test_many_can_be_given_out_in_order(client: headgate.Client) -> None:
    urls = [f"/delay/{0.1 if each % 10 == 0 else 0}" for each in range(100)]
    assert urls == [outcome.request.url for outcome in client.fetch_many(urls, ordered=True)]


def test_a_failed_request_is_an_outcome_like_any_other(server: str) -> None:
    with headgate.Client(retries=0) as client:
        good, bad = client.fetch_many([f"{server}/1", "http://127.0.0.1:1/"], ordered=True)
    assert (200, None) == (good.unwrap().status_code, bad.response)
    with pytest.raises(headgate.ConnectError):
        bad.unwrap()


def test_a_client_continues_however_many_requests_fail(server: str) -> None:
    with headgate.Client(retries=0, base_url=server) as client:
        outcomes = list(client.fetch_many(["http://127.0.0.1:1/"] * 3000))
        assert {"connect"} == {outcome.error.kind for outcome in outcomes if outcome.error is not None}
        assert (3000, 200) == (len(outcomes), client.get("/hello").status_code)


def test_requests_are_read_only_as_far_as_the_bounds_allow(server: str) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield f"{server}/{read}"

    with headgate.Client(concurrency=4) as client, client.fetch_many(endless()) as outcomes:
        for _, _ in zip(range(5000), outcomes, strict=False):
            pass
        assert read <= 5001 + 2 * 4 + 1024 + 1024


def test_leaving_early_cancels_what_is_in_flight(server: str) -> None:
    with headgate.Client() as client:
        with client.fetch_many([f"{server}/1"] + [f"{server}{HELD}"] * 20) as outcomes:
            assert 200 == next(outcomes).unwrap().status_code
            wait_for(lambda: client.statistics().in_flight == 20)
        wait_for(lambda: client.statistics().in_flight == 0)
        with pytest.raises(StopIteration):
            next(outcomes)


def test_the_reader_of_outcomes_can_submit_more(client: headgate.Client) -> None:
    with client.fetch_many(["/echo?8"]) as outcomes:
        seen = []
        for outcome in outcomes:
            seen.append(number := int(outcome.unwrap().json()["path"].partition("?")[2]))
            for _ in range(2 if number else 0):
                outcomes.submit(f"/echo?{number - 1}")
    assert {number: 2 ** (8 - number) for number in range(9)} == {number: seen.count(number) for number in seen}


def test_another_thread_can_submit_until_it_says_that_it_has_finished(client: headgate.Client) -> None:
    outcomes = client.fetch_many()

    def submit() -> None:
        for each in range(500):
            outcomes.submit(f"/{each}")
        outcomes.finish()

    thread = threading.Thread(target=submit)
    thread.start()
    assert 500 == sum(outcome.unwrap().is_success for outcome in outcomes)
    thread.join()


def test_a_closed_client_says_so_and_can_be_closed_again(server: str) -> None:
    client = headgate.Client()
    client.get(server)
    client.close()
    client.close()

    with pytest.raises(RuntimeError, match="the client is closed"):
        client.get(server)
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.fetch_many([server])
    assert 1 == client.statistics().succeeded
    assert "closed" in repr(client)


def test_closing_it_ends_calls_of_other_threads(server: str) -> None:
    client, errors = headgate.Client(), list[BaseException]()

    def ask() -> None:
        try:
            client.get(server + HELD)
        except headgate.RequestCancelled as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_for(lambda: client.statistics().in_flight == 1)
    client.close()
    thread.join(10)
    assert 1 == len(errors)


def test_ctrl_c_ends_a_call_and_cancels_its_exchange(server: str) -> None:
    with headgate.Client() as client:

        def interrupt() -> None:
            wait_for(lambda: client.statistics().in_flight == 1)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            client.get(server + HELD)
        thread.join()
        wait_for(lambda: client.statistics().in_flight == 0)


def test_a_fork_has_an_engine_of_its_own_and_leaves_the_parents_alone(server: str, tmp_path: Path) -> None:
    program = f"""
import os, headgate
client = headgate.Client(base_url={server!r})
assert client.get("/1").is_success
many = client.fetch_many(["/1"] * 9)
assert next(many).unwrap().is_success
child = os.fork()
if child == 0:
    assert client.get("/2").is_success
    assert [True] == [outcome.unwrap().is_success for outcome in client.fetch_many(["/3"])]
    try:
        next(many)
    except RuntimeError as error:
        assert "belong to the process" in str(error), error
    del many
    del client
    os._exit(7)
assert 7 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert client.get("/4").is_success
assert 8 == len(list(many))
print("well")
"""
    # Python 3.12 and later warn of forks in processes with threads, but threads of the engine do not count.
    assert "well\n" == printed_by("import warnings; warnings.simplefilter('ignore')\n" + program, tmp_path)


@pytest.mark.parametrize(
    "end", ["", "raise SystemExit", "del client", "many = client.fetch_many([url] * 9); next(many)"]
)
def test_a_program_may_end_without_closing_it(server: str, tmp_path: Path, end: str) -> None:
    program = f"""
import warnings; warnings.filterwarnings("ignore", "this headgate is a debug build")
import headgate
url = {server!r}
client = headgate.Client()
print(client.get(url).status_code)
{end}
"""
    assert "200\n" == printed_by(program, tmp_path)


@pytest.mark.parametrize(
    ("content", "encoding", "text"),
    [(b"\xef\xbb\xbfa", "utf-8-sig", "a"), (b"\xff\xfea\0", "utf-16", "a"), ("ü".encode(), "utf-8", "ü")],
)
def test_text_without_a_charset_is_what_its_first_bytes_say_or_utf_8(content: bytes, encoding: str, text: str) -> None:
    class MockResponse:
        status, headers, body = 200, list[tuple[str, str]](), content

    response = headgate.Response(headgate.Request("http://host/"), MockResponse())  # type: ignore[arg-type]
    assert (encoding, text) == (response.encoding, response.text)


def test_statistics_are_those_of_the_command_line(client: headgate.Client, server: str) -> None:
    before = stats(server)["requests"]
    client.get("/1")
    assert isinstance(client.statistics(), headgate.Snapshot)
    assert 1 == client.statistics().succeeded
    wait_for_requests(server, before + 1)


def test_a_request_within_a_loop_over_outcomes_gets_the_memory_that_their_bodies_have(server: str) -> None:
    with headgate.Client(concurrency=4, max_memory=2_000_000) as client:
        lengths = [
            (len(outcome.unwrap().content), len(client.get(f"{server}/bytes/1500000").content))
            for outcome in client.fetch_many([f"{server}/bytes/1000000"] * 40)
        ]
    assert [(1_000_000, 1_500_000)] * 40 == lengths


def test_many_requests_within_a_loop_over_outcomes_get_it_too(server: str) -> None:
    with headgate.Client(concurrency=2, max_memory=2_000_000) as client:
        inner = [
            sum(len(each.unwrap().content) for each in client.fetch_many([f"{server}/bytes/1500000"] * 3))
            for _ in client.fetch_many([f"{server}/bytes/1000000"] * 10)
        ]
    assert [4_500_000] * 10 == inner
