"""The cookies of clients: kept over calls, sent where they belong, and read as a mapping."""

import asyncio
import copy
import gc
import http.cookiejar
import pickle
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx
import pyarrow as pa
import pytest
import requests

import headgate
import headgate.testing
from headgate.testing import MockRequest, MockResponse, MockServer
from support.loops import Run
from support.run import serving

API: Final = "https://api.example.com"


@pytest.fixture
def mock() -> Iterator[MockServer]:
    with headgate.testing.mock(lambda _: 200) as server:
        yield server


def setting(*cookies: str, status: int = 200, location: str | None = None) -> MockResponse:
    headers = [("Set-Cookie", cookie) for cookie in cookies]
    return MockResponse(status, headers=[*headers, *([("Location", location)] if location else [])])


def sent(mock: MockServer) -> list[str | None]:
    """Returns the `Cookie` headers of all requests."""
    return [call.request.headers.get("cookie") for call in mock.calls]


@pytest.fixture(scope="module", params=["HTTP/1.1", "HTTP/2"])
def https(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Returns the options of a client for a server with TLS."""
    cert = tmp_path_factory.mktemp("cert") / "cert.pem"
    with serving("--self-signed", str(cert), "--http2") as url:
        yield {
            "base_url": url.replace("127.0.0.1", "localhost"),
            "cacert": str(cert),
            "http1_1": request.param == "HTTP/1.1",
        }


def test_cookies_are_kept_over_calls_and_redirects(server: str) -> None:
    with headgate.Client(base_url=server, cookies=True) as client:
        assert {"cookies": {"a": "1", "b": "2"}} == client.get("/cookies/set?a=1&b=2").json()
        assert {"a": "1", "b": "2"} == client.cookies == dict(client.cookies)
        assert {"cookies": {"b": "2"}} == client.get("/cookies/delete?a=").json()
        assert {"b": "2"} == client.cookies


def test_without_the_option_each_request_stands_alone(server: str) -> None:
    for given in ({}, {"cookies": None}, {"cookies": False}):
        with headgate.Client(base_url=server, **given) as client:
            client.get("/cookies/set?a=1")
            assert {"cookies": {}} == client.get("/cookies").json()
            with pytest.raises(headgate.UsageError, match=r"keeps no cookies: .*Client\(cookies=True\)"):
                client.cookies  # noqa: B018 - reading it is the mistake


def test_cookies_are_kept_over_http2_with_tls(https: dict[str, Any]) -> None:
    version = "HTTP/1.1" if https["http1_1"] else "HTTP/2.0"
    with headgate.Client(**https, cookies={"mine": "0"}) as client:
        response = client.get("/cookies/set?a=1")
        assert ({"cookies": {"a": "1", "mine": "0"}}, version) == (response.json(), response.http_version)
        mine = {cookie.name: cookie.secure for cookie in client.cookies.jar}
        assert {"a": False, "mine": True} == mine, "what is given for https is not sent without TLS"


def test_cookies_given_by_name_are_for_the_host_of_the_base_url() -> None:
    with serving("--host", "0.0.0.0") as url:  # noqa: S104 - for the addresses of this machine
        port = url.rpartition(":")[2]
        with headgate.Client(base_url=f"http://127.0.0.1:{port}", cookies={"a": "1"}) as client:
            assert {"cookies": {"a": "1"}} == client.get("/cookies").json()
            assert {"cookies": {}} == client.get(f"http://127.0.0.2:{port}/cookies").json()
            client.cookies.set("b", "2", domain="127.0.0.2")
            assert {"cookies": {"b": "2"}} == client.get(f"http://127.0.0.2:{port}/cookies").json()


def test_hosts_of_a_domain_share_its_cookies(server: str) -> None:
    port = server.rpartition(":")[2]
    api, www, other = (f"http://{name}:{port}" for name in ("api.example.com", "www.example.com", "example.org"))
    names = [f"{name}:{port}:127.0.0.1" for name in ("api.example.com", "www.example.com", "example.org")]
    with headgate.Client(cookies=True, resolve=names) as client:
        for cookie in ("host=1; Path=/", "site=1; Domain=example.com; Path=/", "all=1; Domain=com; Path=/"):
            client.get(f"{api}/response-headers", params={"Set-Cookie": cookie})
        sent_to = [client.get(f"{origin}/cookies").json()["cookies"] for origin in (api, www, other)]
        assert [{"host": "1", "site": "1"}, {"site": "1"}, {}] == sent_to


@pytest.mark.parametrize("cookies", [{"a": "1"}, [("a", "1")]])
def test_cookies_without_a_domain_need_a_base_url(cookies: Any) -> None:
    for make in (headgate.Client, headgate.AsyncClient):
        with pytest.raises(headgate.UsageError, match=r"cookies need a domain, .* give base_url, or the domain with"):
            make(cookies=cookies)
    with headgate.Client(cookies=True) as client:
        with pytest.raises(headgate.UsageError, match=r"client\.cookies\.set\(name, value, domain='api\.example\.com'"):
            client.cookies["a"] = "1"
        client.cookies.set("a", "1", domain="a.example")
        assert {"a": "1"} == client.cookies


@pytest.mark.parametrize("wrong", [7, "a=1", b"a=1", {"a": 1}, {1: "a"}, ["a"], [("a", "b", "c")], object()])
def test_a_value_that_is_no_cookies_is_refused(wrong: Any) -> None:
    with pytest.raises(headgate.UsageError, match=r"^cookies "):
        headgate.Client(base_url=API, cookies=wrong)
    with headgate.Client(base_url=API) as client, pytest.raises(headgate.InvalidRequest, match=r"cookies?"):
        client.get("/", cookies=wrong)


@pytest.mark.parametrize(
    ("name", "value"), [("", "1"), ("a=b", "1"), ("a b", "1"), ("a", "1;b=2"), ("a", "1\r\nX: 2"), ("a", "x" * 5000)]
)
def test_a_cookie_that_cannot_be_sent_is_refused_without_its_value(name: str, value: str) -> None:
    for make in (
        lambda: headgate.Client(base_url=API, cookies={name: value}),
        lambda: headgate.Cookies().set(name, value, domain="a.example"),
    ):
        with pytest.raises(headgate.UsageError, match=r"^cookies can't have") as refused:
            make()
        assert value not in str(refused.value) or len(value) == 1


def test_cookies_of_a_call_replace_those_of_the_jar_by_name(mock: MockServer) -> None:
    with headgate.Client(base_url=API, cookies={"a": "jar", "b": "jar"}) as client:
        client.get("/", cookies={"a": "call", "c": "call"})
        client.get("/", headers={"Cookie": "b=header"})
        client.get("/", headers={"cookie": "b=header"}, cookies=[("c", "call")])
        client.send(headgate.Request("/", cookies={"a": "request"}))
        [outcome] = client.fetch_many([{"url": "/", "cookies": {"a": "mapping"}}])
        assert outcome.error is None
        assert {"a": "jar", "b": "jar"} == client.cookies, "they are for that call alone"
    with headgate.Client(base_url=API) as client:
        client.get("/", cookies={"a": "call"})
        client.get("/", cookies={})
    headgate.get(API, cookies={"a": "function"})
    assert [
        "a=call; c=call; b=jar",
        "b=header; a=jar",
        "b=header; c=call; a=jar",
        "a=request; b=jar",
        "a=mapping; b=jar",
        "a=call",
        None,
        "a=function",
    ] == sent(mock)


def test_of_a_jar_a_call_sends_what_is_for_its_url(mock: MockServer) -> None:
    jar = headgate.Cookies()
    jar.set("mine", "1", domain="example.com")
    jar.set("other", "1", domain="other.example")
    jar.set("deep", "1", domain="example.com", path="/deep")
    with headgate.Client(base_url=API) as client:
        for cookies in (jar, jar.jar):
            client.get("/", cookies=cookies)
            client.get("/deep/x", cookies=cookies)
    assert ["mine=1", "deep=1; mine=1"] * 2 == sent(mock)


def test_only_cookies_for_the_other_origin_follow_a_redirect_there(mock: MockServer) -> None:
    mock.get(f"{API}/login").gives(
        setting(
            "host=1; Path=/", "site=1; Domain=example.com; Path=/", status=302, location="https://www.example.com/x"
        )
    )
    mock.get("https://www.example.com/x").gives(setting("www=1", status=302, location="https://evil.example/"))
    mock.get("https://evil.example/").gives(setting("evil=1; Domain=example.com", "own=1"))
    with headgate.Client(base_url=API, cookies={"mine": "1"}) as client:
        client.get("/login", cookies={"call": "1"})
        client.get("/")
        client.get("https://evil.example/")
        assert ["host", "mine", "own", "site", "www"] == sorted(client.cookies)
    assert ["call=1; mine=1", "site=1", None, "mine=1; host=1; site=1", "own=1"] == sent(mock)


def test_the_request_as_it_was_sent_has_its_cookies(mock: MockServer) -> None:
    mock.get("/moved").gives(setting("hop=1", status=302, location="/there"))
    with headgate.Client(base_url=API, cookies={"a": "1"}) as client:
        responses = [
            client.get("/?plain=1"),
            client.get("/", headers={"X-Own": "1"}),
            client.get("/", cookies={"b": "2"}),
            client.get("/moved"),
            *(outcome.unwrap() for outcome in client.fetch_many([f"{API}/many"])),
        ]
    shown = [response.request.headers["cookie"] for response in responses]
    assert ["a=1", "a=1", "b=2; a=1", "a=1; hop=1", "a=1; hop=1"] == shown
    assert [*shown[:3], "a=1", *shown[3:]] == sent(mock)


def test_a_redirect_to_itself_that_sets_a_cookie_is_no_loop(mock: MockServer) -> None:
    def answer(request: MockRequest) -> MockResponse:
        return MockResponse(200) if "cookie" in request.headers else setting("seen=1", status=302, location="/")

    mock.get("/").gives(answer)
    with headgate.Client(base_url=API, cookies=True) as client:
        assert 1 == len(client.get("/").history)
        assert 0 == len(client.get("/").history)


def test_cookies_of_responses_that_are_retried_or_fail_are_kept(mock: MockServer) -> None:
    mock.get("/busy").respond_in_turn([setting("busy=1", status=503), 200])
    mock.get("/large").gives(MockResponse(200, content=b"x" * 100, headers={"Set-Cookie": "large=1"}))
    with headgate.Client(base_url=API, cookies=True, retry_delay=0.001, max_body_size=10) as client:
        client.get("/busy")
        with pytest.raises(headgate.BodyTooLarge):
            client.get("/large")
        assert {"busy": "1", "large": "1"} == client.cookies
    assert [None, "busy=1", "busy=1"] == sent(mock)


def test_each_kind_of_call_reads_and_fills_the_jar(mock: MockServer) -> None:
    mock.get("/{name}").gives(lambda request: setting(f"{request.url.rpartition('/')[2]}=1; Path=/"))
    with headgate.Client(base_url=API, cookies=True) as client:
        client.get("/get")
        with client.stream("GET", "/stream") as response:
            assert {"stream": "1"} == response.cookies
        list(client.fetch_many(["/many"]))
        client.fetch_table(pa.table({"url": ["/table"]}))
        list(client.fetch_many(["/arrow"]).to_arrow_batches())
        assert {"get", "stream", "many", "table", "arrow"} == set(client.cookies)
    assert [None, "get=1", "get=1; stream=1", "get=1; stream=1; many=1", "get=1; stream=1; many=1; table=1"] == sent(
        mock
    )


def test_a_client_of_a_loop_keeps_cookies(server: str, run: Run) -> None:
    async def main() -> None:
        async with headgate.AsyncClient(base_url=server, cookies={"mine": "0"}) as client:
            await asyncio.gather(*(client.get(f"/cookies/set?c{number}=1") for number in range(20)))
            assert 21 == len((await client.get("/cookies")).json()["cookies"])
            assert {"mine", *(f"c{number}" for number in range(20))} == set(client.cookies)
        assert 21 == len(client.cookies), "they can be read after it was closed"

    run(main())


def test_threads_share_the_jar_and_may_change_it_meanwhile(server: str) -> None:
    with headgate.Client(base_url=server, cookies=True) as client:

        def work(thread: int) -> None:
            for number in range(20):
                client.get(f"/cookies/set?t{thread}-{number}=1")
                client.cookies[f"own{thread}-{number}"] = "1"
                assert f"t{thread}-{number}" in client.cookies
                client.cookies.delete(f"own{thread}-{number}")

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(work, range(8)))
        assert 160 == len(client.cookies) == len(client.get("/cookies").json()["cookies"])


def test_clients_share_the_cookies_of_another_one(mock: MockServer) -> None:
    with headgate.Client(base_url=API, cookies=True) as first:
        with headgate.Client(base_url="https://www.example.com", cookies=first.cookies) as second:
            second.cookies["of_second"] = "1"
            first.cookies["of_first"] = "1"
            second.get("/")
        first.get("/")
        with headgate.Client(base_url=API, cookies=headgate.Cookies(first.cookies)) as copied:
            copied.cookies.clear()
        assert ["www.example.com", "api.example.com"] == sorted((c.domain for c in first.cookies.jar), reverse=True)
    assert ["of_second=1", "of_first=1"] == sent(mock)


def test_cookies_that_are_assigned_replace_those_of_the_client(mock: MockServer) -> None:
    with headgate.Client(base_url=API, cookies={"a": "1"}) as client:
        kept = client.cookies
        client.cookies = {"b": "2"}
        client.get("/")
        client.cookies = kept
        with pytest.raises(headgate.UsageError):
            client.cookies = {"b;": "2"}
        assert {"b": "2"} == client.cookies == kept, "it is the same jar, and a mistake changes nothing"
    with headgate.Client(base_url=API) as client, pytest.raises(headgate.UsageError, match="keeps no cookies"):
        client.cookies = {"b": "2"}
    assert ["b=2"] == sent(mock)


def test_a_mock_and_the_network_share_the_jar_of_the_client(server: str) -> None:
    with headgate.Client(base_url=server, cookies=True) as client:
        client.get("/cookies/set?a=1")
        with headgate.testing.mock() as mock:
            mock.get("/").gives(setting("b=2; Path=/"))
            client.get("/")
            assert ["a=1"] == sent(mock)
        assert {"cookies": {"a": "1", "b": "2"}} == client.get("/cookies").json()


def test_a_cookie_ends_when_it_expires() -> None:
    with (
        headgate.testing.mock(lambda _: 200, virtual_clock=True) as mock,
        headgate.Client(base_url=API, cookies=True) as client,
    ):
        mock.get("/set").gives(
            setting("short=1; Max-Age=60; Path=/", "long=1; Max-Age=1000; Path=/", "session=1; Path=/")
        )
        mock.get("/end").gives(setting("long=; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Path=/"))
        client.get("/set")
        client.get("/")
        mock.advance(61)
        assert {"long": "1", "session": "1"} == client.cookies
        client.get("/")
        client.get("/end")
        assert {"session": "1"} == client.cookies
        assert [None, "short=1; long=1; session=1", "long=1; session=1", "long=1; session=1"] == sent(mock)


def test_a_server_cannot_set_cookies_for_others(mock: MockServer) -> None:
    mock.get("https://shop.co.uk/").gives(
        setting(
            "suffix=1; Domain=co.uk", "other=1; Domain=other.co.uk", "__Host-a=1; Path=/", "ok=1; Domain=shop.co.uk"
        )
    )
    mock.get("http://shop.co.uk/").gives(setting("ok=2; Domain=shop.co.uk", "secure=1; Secure"))
    with headgate.Client(cookies=True) as client:
        response = client.get("https://shop.co.uk/")
        assert {"ok": "1"} == client.cookies == response.cookies
        client.get("https://other.co.uk/")
        client.get("http://shop.co.uk/")
        assert {"ok": "2"} == client.cookies
    assert [None, None, "ok=1"] == sent(mock)


def test_hostile_servers_cannot_fill_the_memory(mock: MockServer) -> None:
    value = "x" * 4000

    def answer(request: MockRequest) -> MockResponse:
        number = request.url.rpartition("/")[2]
        return setting(*(f"c{number}-{index}={value}; Path=/" for index in range(20)), f"huge={value * 3}")

    mock.request(None, "/{number}").gives(answer)
    with headgate.Client(cookies=True) as client:
        for number in range(20):
            client.get(f"https://one.example/{number}", headers={"Cookie": "mine=1"})
        assert 180 == len(client.cookies), "as many as browsers keep for one domain"
        for outcome in client.fetch_many(f"https://h{number}.example/{number}" for number in range(200)):
            outcome.unwrap()
        assert 3000 == len(client.cookies)
        assert "huge" not in client.cookies


def test_a_call_can_leave_out_the_cookies_of_the_client(mock: MockServer) -> None:
    with headgate.Client(base_url=API, cookies={"a": "1"}) as client:
        client.get("/", headers={"Cookie": None})
        client.get("/", headers={"Cookie": None}, cookies={"b": "2"})
        client.get("/")
    with headgate.Client(base_url=API, cookies={"a": "1"}, headers={"Cookie": "c=3"}) as client:
        client.get("/")
        client.get("/", headers={"Cookie": None})
    assert [None, "b=2", "a=1", "c=3; a=1", None] == sent(mock)


def test_the_cookies_of_a_response_are_its_own(mock: MockServer) -> None:
    mock.get("/login").gives(setting("hop=1", status=302, location="/home"))
    mock.get("/home").gives(setting("a=1; Path=/", "gone=; Max-Age=0", "b=2; HttpOnly; Max-Age=60"))
    with headgate.Client(base_url=API) as client:
        response = client.get("/login")
    assert {"a": "1", "b": "2"} == response.cookies
    restored = pickle.loads(pickle.dumps(response))  # noqa: S301 - our own bytes
    assert response.cookies == restored.cookies
    assert [("a", "/", None), ("b", "/", "HttpOnly")] == [
        (cookie.name, cookie.path, "HttpOnly" if cookie.has_nonstandard_attr("HttpOnly") else None)
        for cookie in restored.cookies.jar
    ]
    response.cookies["c"] = "3"
    assert "api.example.com" == next(cookie.domain for cookie in response.cookies.jar if cookie.name == "c")


def test_cookies_are_a_mapping() -> None:
    cookies = headgate.Cookies()
    assert (0, [], False) == (len(cookies), list(cookies), bool(cookies))
    cookies.set("a", "1", domain="a.example")
    cookies.set("b", "2", domain="a.example", path="/x")
    assert ({"a": "1", "b": "2"}, 2) == (dict(cookies), len(cookies))
    assert ("1", None, "default") == (cookies["a"], cookies.get("c"), cookies.get("c", "default"))
    assert "a" in cookies
    assert "c" not in cookies
    assert 7 not in cookies  # type: ignore[comparison-overlap] # as a mapping allows
    with pytest.raises(KeyError, match="c"):
        cookies["c"]
    with pytest.raises(KeyError, match="c"):
        del cookies["c"]
    cookies.delete("c")
    del cookies["a"]
    assert "2" == cookies.pop("b")
    assert not cookies


def test_a_name_of_several_domains_is_read_with_its_domain() -> None:
    cookies = headgate.Cookies()
    cookies.set("id", "1", domain="a.example")
    cookies.set("id", "2", domain="b.example")
    cookies.set("id", "3", domain="b.example", path="/deep")
    assert (["id", "id", "id"], 3) == (list(cookies), len(cookies))
    with pytest.raises(headgate.CookieConflict, match="several cookies are called 'id'"):
        cookies["id"]
    with pytest.raises(headgate.CookieConflict):
        cookies.get("id", domain="b.example")
    assert "1" == cookies.get("id", domain=".A.example")
    assert "3" == cookies.get("id", domain="b.example", path="/deep")
    cookies.delete("id", domain="b.example", path="/deep")
    assert "2" == cookies.get("id", domain="b.example")
    cookies.clear(domain="b.example")
    assert "1" == cookies["id"]
    cookies.clear()
    assert not cookies


def test_the_values_of_cookies_are_not_shown(mock: MockServer) -> None:
    with headgate.Client(base_url=API, cookies={"session": "s3cret"}) as client:
        client.cookies.set("site", "s3cret", domain="example.com", path="/x")
        assert "<Cookies [session=*** for api.example.com/, site=*** for .example.com/x]>" == repr(client.cookies)
        for number in range(20):
            client.cookies[f"c{number}"] = "s3cret"
        assert repr(client.cookies).endswith(", 12 more]>")
        shown = f"{client!r} {client.cookies!r} {headgate.Request('/', cookies={'a': 's3cret'})!r}"
        assert "s3cret" not in shown
        client.cookies.set("session", "s3cret", domain="example.com")
        with pytest.raises(headgate.CookieConflict) as conflict:
            client.cookies["session"]
        assert "s3cret" not in str(conflict.value)
    assert [] == sent(mock)


def test_copies_of_cookies_are_independent() -> None:
    with headgate.Client(base_url=API, cookies={"a": "1"}) as client:
        pickled = pickle.loads(pickle.dumps(client.cookies))  # noqa: S301 - our own bytes
        for other in (copy.copy(client.cookies), copy.deepcopy(client.cookies), pickled):
            assert client.cookies == other
            other["b"] = "2"
        assert {"a": "1"} == client.cookies


def test_cookies_are_exchanged_with_http_cookiejar(mock: MockServer) -> None:
    mock.get("/set").gives(
        setting("host=1; Secure; HttpOnly; Path=/deep; Max-Age=1000", "site=2; Domain=example.com; Path=/")
    )
    with headgate.Client(base_url=API, cookies=True) as client:
        client.get("/set")
        jar = client.cookies.jar
    host, site = sorted(jar, key=lambda cookie: cookie.name)
    assert ("api.example.com", False, "/deep", True) == (host.domain, host.domain_specified, host.path, host.secure)
    assert host.expires is not None
    assert (".example.com", True, None, True) == (site.domain, site.domain_specified, site.expires, site.discard)
    with headgate.Client(base_url=API, cookies=jar) as client:
        client.get("/deep")
        client.get("https://www.example.com/deep")
        assert [vars(cookie) for cookie in jar] == [vars(cookie) for cookie in client.cookies.jar]
        client.cookies.clear()
    assert 2 == len(jar), "it was copied"
    assert ["host=1; site=2", "site=2"] == sent(mock)[1:]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_cookies_are_exchanged_with_requests_and_httpx(server: str, host: str) -> None:
    at = server.replace("127.0.0.1", host)
    with requests.Session() as session, httpx.Client(follow_redirects=True) as of_httpx:
        session.get(f"{at}/cookies/set?a=1")
        of_httpx.get(f"{at}/cookies/set?a=1")
        for given in (session.cookies, of_httpx.cookies):
            with headgate.Client(base_url=at, cookies=given) as client:
                assert {"cookies": {"a": "1"}} == client.get("/cookies").json()
                client.get("/cookies/set?b=2")
            session.cookies.clear()
            session.cookies.update(client.cookies.jar)
            assert {"cookies": {"a": "1", "b": "2"}} == session.get(f"{at}/cookies").json()
            with httpx.Client(cookies=client.cookies.jar) as other:
                assert {"cookies": {"a": "1", "b": "2"}} == other.get(f"{at}/cookies").json()


def test_cookies_are_saved_to_a_file_and_loaded(server: str, tmp_path: Path) -> None:
    path = tmp_path / "cookies.txt"
    at_localhost = server.replace("127.0.0.1", "localhost")
    with headgate.Client(base_url=at_localhost, cookies=True) as client:
        client.get("/cookies/set?a=1")
        client.cookies.set("site", "2", domain="example.com")
        saved = http.cookiejar.MozillaCookieJar(path)
        for cookie in client.cookies.jar:
            saved.set_cookie(cookie)
        saved.save(ignore_discard=True)
    loaded = http.cookiejar.MozillaCookieJar(path)
    loaded.load(ignore_discard=True)
    with headgate.Client(base_url=at_localhost, cookies=loaded) as client:
        assert {"cookies": {"a": "1"}} == client.get("/cookies").json()
        kept = {cookie.name: (cookie.domain, cookie.domain_specified) for cookie in client.cookies.jar}
        assert {"a": ("localhost.local", False), "site": (".example.com", True)} == kept


def test_a_cookie_of_another_jar_without_a_domain_is_for_the_host_of_the_base_url(mock: MockServer) -> None:
    jar = http.cookiejar.CookieJar()
    jar.set_cookie(
        http.cookiejar.Cookie(
            *(0, "a", None, None, False, "", False, False, "/", True, False, None, True, None, None, {}),
        )
    )
    with headgate.Client(base_url=API, cookies=jar) as client:
        client.get("/")
    with headgate.Client(base_url=API) as client:
        client.get("/", cookies=jar)
    assert ["a=", "a="] == sent(mock)
    with pytest.raises(headgate.UsageError, match="need a domain"):
        headgate.Client(cookies=jar)


def test_a_fork_begins_with_the_cookies_of_its_parent(server: str, tmp_path: Path) -> None:
    from support.run import printed_by  # noqa: PLC0415 - for this test alone

    program = f"""
import os, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
warnings.simplefilter("ignore", RuntimeWarning)
import headgate

client = headgate.Client(base_url={server!r}, cookies=True)
client.get("/cookies/set?a=1")
ends = threading.Event()

def work():
    while not ends.is_set():
        client.get("/cookies/set?busy=1")

threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        client.cookies["of_child"] = "1"
        sent = client.get("/cookies").json()["cookies"]
        os._exit(0 if sent["a"] == sent["of_child"] == "1" else 1)
    assert os.waitpid(child, 0)[1] == 0
ends.set()
for thread in threads:
    thread.join()
print(sorted(client.cookies), client.cookies.jar is not client.cookies.jar)
client.close()
print(client.cookies["a"])
"""
    assert ["['a', 'busy'] True", "1"] == printed_by(program, tmp_path).splitlines()


def test_a_jar_is_dropped_with_its_client() -> None:
    from headgate.client import _cookie_jar  # noqa: PLC0415 - for this test alone

    gc.collect()
    before = len(_cookie_jar._shared)  # noqa: SLF001 - nothing public shows it
    client = headgate.Client(base_url=API, cookies={"a": "1"})
    assert before + 1 == len(_cookie_jar._shared)  # noqa: SLF001 - as above
    client.close()
    del client
    gc.collect()
    assert before == len(_cookie_jar._shared)  # noqa: SLF001 - as above
