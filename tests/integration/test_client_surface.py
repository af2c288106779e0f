"""What programs that were written for httpx use: parameters and headers of a client, requests that are built, links."""

import asyncio
import copy
import dataclasses
import multiprocessing
import threading
import time
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
import yarl

import headgate
import headgate.testing
from support.run import serving


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[headgate.Client]:
    with headgate.Client(base_url=server, headers={"X-Client": "1"}, params={"key": "k", "page": 1}) as client:
        yield client


def sent(response: headgate.Response) -> dict[str, str]:
    return {name.lower(): value for name, value in response.json()["headers"]}


def test_parameters_of_a_client_are_sent_unless_the_call_has_others(client: headgate.Client) -> None:
    for path, params in [
        ("/echo?key=k&page=1", None),
        ("/echo?key=k&page=1", {}),
        ("/echo?key=k&page=2&q=a+b", {"page": 2, "q": "a b"}),
        ("/echo?key=k&page=2", "page=2"),
        ("/echo?page=2&key=x", [("page", 2), ("key", "x")]),
    ]:
        assert path == client.get("/echo", params=params).json()["path"]
    assert "/echo?page=0&key=k" == client.get("/echo?page=0#part").json()["path"]
    assert "/echo?page=0&key=x&page=2" == client.get("/echo?page=0&key=x", params={"page": 2}).json()["path"]


def test_parameters_of_a_client_are_sent_with_each_of_many_requests(client: headgate.Client) -> None:
    requests: list[Any] = ["/echo", headgate.Request("/echo", params={"page": 2}), {"url": "/echo?a=1"}]
    paths = [outcome.unwrap().json()["path"] for outcome in client.fetch_many(requests, ordered=True)]
    assert ["/echo?key=k&page=1", "/echo?key=k&page=2", "/echo?a=1&key=k&page=1"] == paths


def test_parameters_of_a_client_may_be_a_query_and_nothing_else(server: str) -> None:
    with headgate.Client(base_url=server, params="?a=1&a=2&b=") as client:
        assert "/echo?a=1&a=2&b=" == client.get("/echo").json()["path"]
    with pytest.raises(headgate.UsageError, match="params must be a mapping or pairs of names and values, not int"):
        headgate.Client(params=7)  # type: ignore[arg-type]


def test_headers_of_a_client_can_be_read_and_changed(client: headgate.Client) -> None:
    headers = client.headers
    assert ["user-agent", "accept", "accept-encoding", "x-client"] == list(headers)
    assert "*/*" == headers["ACCEPT"]

    headers["X-Token"] = "t1"
    client.headers.update({"User-Agent": "mine/1"}, Accept="text/html")
    seen = sent(client.get("/echo"))
    assert ("t1", "mine/1", "text/html", "1") == (
        seen["x-token"],
        seen["user-agent"],
        seen["accept"],
        seen["x-client"],
    )

    del headers["x-client"], headers["user-agent"]
    seen = sent(client.get("/echo"))
    assert not {"x-client", "user-agent"} & {*seen, *headers}
    with pytest.raises(KeyError):
        del headers["x-client"]


def test_assigned_headers_replace_those_of_the_client(client: headgate.Client) -> None:
    client.headers = {"X-Other": "2"}
    seen = sent(client.get("/echo"))
    assert "x-client" not in seen
    assert ("2", "*/*") == (seen["x-other"], seen["accept"])


def test_several_values_of_a_header_are_kept(server: str) -> None:
    twice = [("X-Two", "1"), ("X-Two", "2")]
    with headgate.Client(base_url=server, headers=twice) as client:

        def values() -> list[str]:
            return [value for name, value in client.get("/echo").json()["headers"] if name.lower() == "x-two"]

        client.headers = client.headers.multi_items()
        assert ["1", "2"] == values() == client.headers.get_list("x-two")
        client.headers.update([("x-two", "3"), ("X-Two", "4")])
        assert ["3", "4"] == values()
        with headgate.testing.mock() as mock:
            mock.route()
            client.get("/")
        assert ["3", "4"] == mock.calls[0].request.headers.get_list("x-two")
        client.headers["X-Two"] = "5"
        assert ["5"] == values()
        del client.headers["x-two"]
        assert [] == values()


def test_changed_headers_are_sent_with_urls_tables_and_streams(client: headgate.Client) -> None:
    client.headers["X-Changed"] = "7"
    many = [sent(outcome.unwrap()) for outcome in client.fetch_many(["/echo"] * 3)]
    table = pa.table(client.fetch_table(pa.table({"url": ["/echo"]})))
    with client.stream("GET", "/echo") as response:
        response.read()
        assert "7" == sent(response)["x-changed"]
    assert ["7"] * 3 == [seen["x-changed"] for seen in many]
    assert '["X-Changed","7"]' in table["body"][0].as_py().decode()


def test_a_header_that_a_thread_sets_is_sent_by_all(client: headgate.Client) -> None:
    def change(number: int) -> None:
        for round_number in range(50):
            client.headers[f"X-{number}"] = str(round_number)
            assert str(round_number) == sent(client.get("/echo"))[f"x-{number}"]

    threads = [threading.Thread(target=change, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ["49"] * 4 == [sent(client.get("/echo"))[f"x-{number}"] for number in range(4)]


def test_headers_that_come_and_go_leave_nothing(client: headgate.Client) -> None:
    for number in range(2000):  # more than a request may have
        client.headers[f"X-{number}"] = "1"
        del client.headers[f"X-{number}"]
    assert 4 == len(client.headers)


def test_changed_credentials_go_only_where_credentials_go(server: str) -> None:
    with serving() as other, headgate.Client(base_url=server) as client:
        client.headers.update({"Authorization": "Bearer abc", "X-Api-Key": "k", "X-Plain": "1"})
        assert ("Bearer abc", "k") == (
            sent(client.get("/echo"))["authorization"],
            sent(client.get("/echo"))["x-api-key"],
        )
        elsewhere = sent(client.get(f"{other}/echo"))
        assert not {"authorization", "x-api-key"} & set(elsewhere)
        assert "1" == elsewhere["x-plain"]
        assert "abc" not in repr(client.headers)
        assert "('X-Api-Key', '***')" in repr(client.headers)


def test_headers_that_cant_be_sent_are_refused_and_change_nothing(server: str) -> None:
    with headgate.Client(base_url=server, bearer="abc") as client:
        for name, value, message in [
            ("X", "a\nb", "a character that can't be sent"),
            ("a b", "1", "a name that can't be sent"),
            ("Content-Length", "1", "can't set `content-length`, which headgate sets"),
            ("Authorization", "x", "bearer and headers both set authorization"),
        ]:
            with pytest.raises(headgate.UsageError, match=message):
                client.headers[name] = value
        with pytest.raises(TypeError, match="that of 'X' is int"):
            client.headers["X"] = 7  # type: ignore[assignment]
        assert ["user-agent", "accept", "accept-encoding"] == list(client.headers)
        assert "Bearer abc" == sent(client.get("/echo"))["authorization"]
    with headgate.Client() as client, pytest.raises(headgate.UsageError, match="nothing says which hosts may get it"):
        client.headers["Authorization"] = "x"


def test_changed_headers_hold_in_mocks_and_forks(server: str) -> None:
    with headgate.Client(base_url=server) as client:
        client.headers["X-Changed"] = "7"
        with headgate.testing.mock() as mock:
            mock.get("/mocked").respond(200)
            client.get("/mocked")
            client.headers["X-More"] = "8"
            client.get("/mocked")
            assert ["7", "7"] == [call.request.headers["x-changed"] for call in mock.calls]
            assert "8" == mock.calls[1].request.headers["x-more"]
        assert ("7", "8") == (sent(client.get("/echo"))["x-changed"], sent(client.get("/echo"))["x-more"])

        context = multiprocessing.get_context("fork")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=lambda: sender.send(sent(client.get("/echo"))))
        child.start()
        assert receiver.poll(60)
        assert "8" == receiver.recv()["x-more"]
        child.join()


def test_a_call_removes_headers_of_the_client(client: headgate.Client) -> None:
    removed = {"x-client": None, "User-Agent": None, "Accept": None, "Accept-Encoding": None, "X-Own": "1"}
    expected = {"host", "x-own"}
    assert expected == set(sent(client.get("/echo", headers=removed)))
    assert expected == set(sent(client.get("/echo", headers=list(removed.items()))))
    (many,) = client.fetch_many([headgate.Request("/echo", headers=removed)])
    assert expected == set(sent(many.unwrap()))
    (redirected,) = client.fetch_many([headgate.Request("/redirect-to?url=/echo", headers=removed)])
    assert expected == set(sent(redirected.unwrap()))
    assert "x-client" in sent(client.get("/echo"))

    posted = client.post("/echo", json={}, headers={"Content-Type": None})
    assert "content-type" not in sent(posted)
    with pytest.raises(headgate.InvalidRequest, match="Host can't be removed"):
        client.get("/echo", headers={"Host": None})


def test_a_call_removes_authorization_whatever_has_set_it(server: str) -> None:
    def sign(request: headgate.PreparedRequest) -> None:
        request.headers["Authorization"] = "signed"

    with_user = server.replace("//", "//ann:secret@")
    clients: list[tuple[str, dict[str, Any]]] = [
        (server, {"bearer": "abc"}),
        (server, {"auth": ("ann", "secret")}),
        (server, {"auth": sign}),
        (server, {"headers": {"Authorization": "x"}}),
        (with_user, {}),
    ]
    for base_url, options in clients:
        with headgate.Client(base_url=base_url, **options) as client:
            assert "authorization" in sent(client.get("/echo"))
            assert "authorization" not in sent(client.get("/echo", headers={"authorization": None}))


def test_a_built_request_can_be_changed_and_sent(client: headgate.Client) -> None:
    request = client.build_request("POST", "/echo", json={"a": 1}, headers={"X-One": "1"})
    assert isinstance(request, headgate.Request)
    assert ("POST", "/echo") == (request.method, request.url)
    request.headers["x-one"] = "2"  # type: ignore[index]
    request.headers["X-Two"] = "3"  # type: ignore[index]
    response = client.send(request)
    assert ("2", "3", "1") == (sent(response)["x-one"], sent(response)["x-two"], sent(response)["x-client"])
    assert ("/echo?key=k&page=1", '{"a":1}') == (response.json()["path"], response.json()["body"])

    other = dataclasses.replace(copy.copy(request), method="PUT")
    assert "PUT" == client.send(other).json()["method"]
    without = client.build_request("GET", "/echo", headers={"X-Client": None})
    assert "x-client" not in sent(client.send(without, stream=False))
    with pytest.raises(TypeError, match=r"build_request\(\) got an unexpected keyword argument 'bdoy'"):
        client.build_request("GET", "/echo", bdoy="")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"stream=True: here it is client\.stream\(method, url\)"):
        client.send(request, stream=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"send\(\) got an unexpected keyword argument 'timeout'"):
        client.send(request, timeout=3)  # type: ignore[call-arg]
    redirected = client.build_request("GET", "/redirect/1")
    assert 302 == client.send(redirected, follow_redirects=False, auth=None).status_code
    assert 200 == client.send(redirected, redirects="follow").status_code


def test_a_client_says_whether_it_is_closed() -> None:
    client = headgate.Client()
    before = client.is_closed
    client.close()
    assert (False, True) == (before, client.is_closed)
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.headers["X"] = "1"
    assert "*/*" == client.headers["accept"]


LINKS = [
    ({}, []),
    ({"next": "/b?c=1,2;3"}, ['<b?c=1,2;3>; rel="next"']),
    ({"next": "/2", "last": "/9"}, ['</2>; rel=next, </9>; rel="last"']),
    ({"next": "/2", "last": "/9"}, ["</2>; rel=next", "</9>; rel=last"]),
    ({"prev": "/1", "first": "/1"}, ['</1> ; rel = "prev first"']),
    ({"next": "/3"}, ["</2>; rel=next, </3>; rel=next"]),
    ({"next": "/2"}, ["</2>; REL=Next"]),
    ({"next": "/2"}, ["</2>; rel=next; rel=last"]),
    ({"next": "/2"}, ["</2>; rel=next;"]),
    ({"next": "/2"}, ["no link, </2>; rel=next"]),
    ({"/2": "/2"}, ["</2>"]),
    ({"next": "/2"}, ["<http://[>; rel=broken", "</2>; rel=next"]),
    ({}, ["nothing", "<unfinished"]),
]


@pytest.mark.parametrize(("expected", "values"), LINKS)
def test_links_are_by_relation_with_absolute_urls(
    client: headgate.Client, server: str, expected: dict[str, str], values: list[str]
) -> None:
    found = client.get("/response-headers", params=[("Link", value) for value in values]).links
    absolute = {
        urllib.parse.urljoin(server, name) if "/" in name else name: f"{server}{url}" for name, url in expected.items()
    }
    assert absolute == {name: link["url"] for name, link in found.items() if name != "broken"}


def test_links_of_any_length_are_parsed_in_no_time(client: headgate.Client) -> None:
    for value in (
        " " * 50_000,
        "<a>; x" + " " * 50_000,
        "<a>" * 20_000,
        '<a>; t="' + "\\" * 50_000,
        "<a>" + "; " * 25_000,
    ):
        with headgate.testing.mock() as mock:
            mock.get("/").respond(headers={"Link": f"{value}, </b>; rel=next"})
            started_at = time.perf_counter()
            _ = client.get("/", timeout=60).links
            assert time.perf_counter() - started_at < 20  # the square of these lengths takes minutes


def test_a_link_has_its_parameters(client: headgate.Client) -> None:
    link = r"""<https://other.example/x>; REL=next; title="a, \"b\"; c"; hreflang=de; crossorigin"""
    found = client.get("/response-headers", params={"Link": link}).links["next"]
    assert {
        "url": "https://other.example/x",
        "rel": "next",
        "title": 'a, "b"; c',
        "hreflang": "de",
        "crossorigin": "",
    } == found


def test_urls_of_other_libraries_are_accepted(server: str) -> None:
    kinds: list[Any] = [yarl.URL, httpx.URL, urllib.parse.urlsplit, urllib.parse.urlparse]
    for kind in kinds:
        with headgate.Client(base_url=kind(server)) as client:
            assert "/echo?a=1" == client.get(kind("/echo?a=1")).json()["path"]
            assert "/echo?b=2" == client.send(headgate.Request(kind(f"{server}/echo?b=2"))).json()["path"]
            requests = [kind("/echo"), headgate.Request(kind("/echo")), {"url": kind("/echo")}]
            for outcome in client.fetch_many(requests):
                assert ("/echo", "/echo") == (outcome.unwrap().json()["path"], outcome.request.url)
            with pytest.raises(TypeError, match="many requests are an iterable of them"):
                client.fetch_many(kind("/echo"))
        assert "/echo" == headgate.get(kind(f"{server}/echo")).json()["path"]


@pytest.mark.parametrize("url", [b"/echo", Path("/echo"), urllib.parse.urlsplit(b"/echo"), 7, None])
def test_what_is_no_url_is_refused(client: headgate.Client, url: Any) -> None:
    with pytest.raises(headgate.InvalidRequest, match=r"url must be text, not "):
        client.get(url)
    (outcome,) = client.fetch_many([headgate.Request(url)])
    assert isinstance(outcome.error, headgate.InvalidRequest)
    with pytest.raises(headgate.UsageError, match="base_url must be a URL"):
        headgate.Client(base_url=url)


async def _all_of_it(server: str) -> None:
    async with headgate.AsyncClient(base_url=server, params={"a": 1}) as client:
        client.headers["X-Changed"] = "7"
        request = client.build_request("GET", "/echo", headers={"Accept": None})
        request.headers["X-Own"] = "1"  # type: ignore[index]
        response = await client.send(request)
        assert "/echo?a=1" == response.json()["path"]
        assert {"x-changed", "x-own"} < set(sent(response))
        with pytest.raises(TypeError, match="here it is client"):
            await client.send(request, stream=True)  # type: ignore[arg-type]
        assert "accept" in sent(await client.get(yarl.URL("/echo")))
    assert client.is_closed


def test_the_client_for_event_loops_has_the_same(server: str) -> None:
    asyncio.run(_all_of_it(server))
