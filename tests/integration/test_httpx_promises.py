"""What of httpx holds: the promises that its own tests check, in our words. The docstring of each test is one of them.

docs/coming-from.md has the table of all, with those that differ on purpose and those that are missing.
"""

import asyncio
import gzip
import inspect
import io
import json
import logging
import pickle
import sys
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

import headgate
import headgate.testing
from headgate.testing import MockRequest, MockResponse, MockServer
from support.documents import table

HOST = "https://example.org"
PAGE = "docs/coming-from.md"


@pytest.fixture
def echo(mock: MockServer) -> MockServer:
    """Answers with the method, the URL, the headers and the body of each request."""

    def echoed(request: MockRequest) -> MockResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        body = request.content.decode("latin-1")
        return MockResponse(json={"method": request.method, "url": request.url, "headers": headers, "body": body})

    mock.request(None, response=echoed)
    return mock


def respond(mock: MockServer, **response: Any) -> None:
    """Answers each request with this response."""
    mock.request(None).respond(200, **response)


@pytest.mark.usefixtures("echo")
def test_bodies(client: headgate.Client) -> None:
    """a body is bytes, text, JSON or a form, with its type and length"""
    bodies: list[tuple[dict[str, Any], str, str]] = [
        ({"content": b"Hello"}, "Hello", "application/octet-stream"),
        ({"content": "Hello"}, "Hello", "text/plain; charset=utf-8"),
        ({"json": {"a": [1, None]}}, '{"a":[1,null]}', "application/json"),
        ({"data": {"a": "x y", "b": [1, True, None]}}, "a=x+y&b=1&b=true&b=", "application/x-www-form-urlencoded"),
    ]
    for given, body, kind in bodies:
        seen = client.post(HOST, **given).json()
        assert (body, kind) == (seen["body"], seen["headers"]["content-type"])
        assert str(len(body)) == seen["headers"]["content-length"]
    assert "0" == client.post(HOST).json()["headers"]["content-length"]
    assert "content-length" not in client.get(HOST).json()["headers"]
    assert "ça".encode().decode("latin-1") in client.post(HOST, json="ça").json()["body"]
    mistakes: list[dict[str, Any]] = [{"content": 7}, {"content": {"a": "b"}}, {"json": float("nan")}]
    for wrong in mistakes:
        with pytest.raises(headgate.InvalidRequest):
            client.post(HOST, **wrong)


@pytest.mark.usefixtures("echo")
def test_own_headers(client: headgate.Client) -> None:
    """headers of a call replace those that are set by default, `Host` included"""
    own = {"Host": "other.example:80", "Accept-Encoding": "identity", "User-Agent": "mine", "Content-Type": "text/x"}
    seen = client.post(HOST, content=b"", headers=own).json()["headers"]
    assert {name.lower(): value for name, value in own.items()}.items() <= seen.items()


@pytest.mark.usefixtures("echo")
def test_pickling(client: headgate.Client) -> None:
    """requests and responses can be pickled"""
    request = headgate.Request(f"{HOST}/a", method="POST", json={"test": 123}, headers={"A": "1"})
    copy = pickle.loads(pickle.dumps(request))  # noqa: S301 - our own
    response = client.send(copy)
    again = pickle.loads(pickle.dumps(response))  # noqa: S301 - our own
    assert ("POST", '{"test":123}') == (again.json()["method"], again.json()["body"])
    assert (response.status_code, response.headers, response.url) == (again.status_code, again.headers, again.url)
    assert [] == again.history


def test_statuses(mock: MockServer) -> None:
    """a status belongs to a class, and has a phrase if it is known"""
    mock.get("/{status}", response=lambda request: int(request.path_params["status"]))
    with headgate.Client(retries=0, redirects="none") as client:
        for status, phrase, kind in [
            (200, "OK", "is_success"),
            (303, "See Other", "is_redirect"),
            (403, "Forbidden", "is_client_error"),
            (500, "Internal Server Error", "is_server_error"),
            (599, "", "is_server_error"),
        ]:
            response = client.get(f"{HOST}/{status}")
            assert (status, phrase) == (response.status_code, response.reason_phrase)
            kinds = ("is_informational", "is_success", "is_redirect", "is_client_error", "is_server_error")
            assert [kind] == [name for name in kinds if getattr(response, name)]
            assert response.is_error is (status >= 400)
            assert f"<Response [{status}{' ' * bool(phrase)}{phrase}]>" == repr(response)


def test_raise_for_status(mock: MockServer) -> None:
    """`raise_for_status` returns the response if its status is 2xx, and raises otherwise"""
    mock.get("/{status}", response=lambda request: int(request.path_params["status"]))
    with headgate.Client(retries=0, redirects="none") as client:
        for status in (200, 204, 299):
            response = client.get(f"{HOST}/{status}")
            assert response is response.raise_for_status()
        for status in (303, 400, 404, 500, 505):
            response = client.get(f"{HOST}/{status}")
            with pytest.raises(headgate.StatusError, match=f"^{status} .*: {HOST}/{status}$") as raised:
                response.raise_for_status()
            assert response is raised.value.response


TEXTS = [
    ("Latin 1: ÿ", "latin-1", "text/plain; charset=latin-1", "iso8859-1"),
    ("おはようございます。", "utf-8", None, "utf-8"),
    ("おはようございます。", "utf-8", "text/plain; charset=invalid-codec-name", "utf-8"),
    ("Snowman: ☃", "utf-8", "text/plain", "utf-8"),
    ("xyz", "utf-8", "image/png", "utf-8"),
    ("トラベル", "shift-jis", "text/html; charset=shift-jis", "shift_jis"),
    ("", "utf-8", None, "utf-8"),
]


def test_text(mock: MockServer, client: headgate.Client) -> None:
    """text is decoded as the `Content-Type` says, or else as UTF-8; the encoding can be set"""
    for text, sent_as, kind, encoding in TEXTS:
        headers = {"Content-Type": kind} if kind else {}
        respond(mock, content=text.encode(sent_as), headers=headers)
        response = client.get(HOST)
        assert (text, encoding) == (response.text, response.encoding)
        with client.stream("GET", HOST) as streamed:
            assert text == "".join(streamed.iter_text())
    respond(mock, content=b"")
    assert client.get(HOST).charset_encoding is None
    respond(mock, content="Snowman: ☃".encode(), headers={"Content-Type": "text/plain; charset=utf-8"})
    response = client.get(HOST)
    assert "utf-8" == response.charset_encoding
    response.encoding = "iso-8859-1"
    assert ("Snowman: â\x98\x83", "iso-8859-1") == (response.text, response.encoding)
    response.encoding = "utf-8"  # differs from httpx
    assert ("Snowman: ☃", "utf-8") == (response.text, response.encoding)
    with client.stream("GET", HOST) as streamed:
        streamed.encoding = "iso-8859-1"
        assert "Snowman: â\x98\x83" == "".join(streamed.iter_text())


def test_json(mock: MockServer, client: headgate.Client) -> None:
    """JSON is decoded in UTF-8, UTF-16 and UTF-32, with the options of `json.loads`"""
    value = {"greeting": "héllo", "amount": 1}
    utf_16_and_32 = [f"utf-{bits}{order}" for bits in (16, 32) for order in ("", "-be", "-le")]
    for encoding in ("utf-8", "utf-8-sig", *utf_16_and_32):
        respond(mock, content=json.dumps(value).encode(encoding), headers={"Content-Type": "application/json"})
        assert value == client.get(HOST).json()
        assert "1" == client.get(HOST).json(parse_int=str)["amount"]
    respond(mock, content=b"\x00\x00\x00\x00")
    with pytest.raises(ValueError, match=r"Expecting value|can't decode"):
        client.get(HOST).json()


def test_links(mock: MockServer, client: headgate.Client) -> None:
    """`links` has the `Link` headers by their relation types"""
    for header, links in [
        ("<https://example.com>; rel='preload'", {"preload": {"url": "https://example.com"}}),
        ('</hub>; rel="hub", </me>; rel="self"', {"hub": {"url": f"{HOST}/hub"}, "self": {"url": f"{HOST}/me"}}),
        ('<http://a/b.jpeg>; type="image/jpeg"', {"http://a/b.jpeg": {"url": "http://a/b.jpeg", "type": "image/jpeg"}}),
        ("", {}),
    ]:
        respond(mock, headers={"Link": header})
        found = client.get(HOST).links
        assert links == {name: {key: link[key] for key in link if key != "rel"} for name, link in found.items()}
        assert all(link.get("rel", name) == name for name, link in found.items())


def test_streaming(mock: MockServer, client: headgate.Client) -> None:
    """a streamed body is read as bytes, as raw bytes, as text or as lines, in chunks of any size"""
    respond(mock, content=[b"Hello, ", b"world!"])
    for size, chunks in [
        (5, [b"Hello", b", wor", b"ld!"]),
        (7, [b"Hello, ", b"world!"]),
        (13, [b"Hello, world!"]),
        (20, [b"Hello, world!"]),
    ]:
        with client.stream("GET", HOST) as response:
            assert chunks == list(response.iter_bytes(chunk_size=size))
        with client.stream("GET", HOST) as response:
            assert chunks == list(response.iter_raw(chunk_size=size))
        with client.stream("GET", HOST) as response:
            assert [chunk.decode() for chunk in chunks] == list(response.iter_text(chunk_size=size))
    with client.stream("GET", HOST) as response:
        assert all(response.iter_bytes())
    respond(mock, content=b"")
    with client.stream("GET", HOST) as response:
        assert [] == list(response.iter_bytes())


def test_lines(mock: MockServer, client: headgate.Client) -> None:
    r"""lines end with `\n`, `\r` or `\r\n`, also across pieces"""
    for pieces, lines in [
        ([b"a\n\nb\nc"], ["a", "", "b", "c"]),
        ([b"12345\n", b"foo ", b"bar ", b"baz\n"], ["12345", "foo bar baz"]),
        ([b"a\r\rb\rc\r"], ["a", "", "b", "c"]),
        ([b"a\r", b"\n\r\nb\r\nc\r\n"], ["a", "", "b", "c"]),
        ([b""], []),
    ]:
        respond(mock, content=pieces)
        with client.stream("GET", HOST) as response:
            assert lines == list(response.iter_lines())


def test_reading_once(mock: MockServer, client: headgate.Client) -> None:
    """a streamed body can be read whole, or once in pieces, and not after the response is closed"""
    respond(mock, content=[b"Hello, ", b"world!"])
    with client.stream("GET", HOST) as response:
        assert not response.is_stream_consumed
        with pytest.raises(RuntimeError, match="was not read"):
            _ = response.content
        assert b"Hello, world!" == response.read() == response.read() == response.content
        assert (True, True, 13) == (response.is_stream_consumed, response.is_closed, response.num_bytes_downloaded)
    with client.stream("GET", HOST) as response:
        assert b"Hello, world!" == b"".join(response.iter_bytes())
        with pytest.raises(RuntimeError, match="only once"):
            response.read()
    with client.stream("GET", HOST) as response:
        response.close()
        with pytest.raises(RuntimeError, match="closed"):
            response.read()


def test_headers_are_a_mapping() -> None:
    """headers are found in any case; those with one name are joined, listed, or split at commas"""
    headers = headgate.Headers([("a", "123"), ("A", "456"), ("b", "789")])
    assert "A" in headers
    assert "c" not in headers
    assert ("123, 456", None) == (headers["a"], headers.get("nope"))
    assert (["123", "456"], []) == (headers.get_list("a"), headers.get_list("c"))
    assert [("a", "123, 456"), ("b", "789")] == list(headers.items())
    assert [("a", "123"), ("A", "456"), ("b", "789")] == headers.multi_items()
    vary = headgate.Headers([("vary", "a, b"), ("vary", "c")])
    assert ["a", "b", "c"] == vary.get_list("Vary", split_commas=True)


def test_headers_are_equal() -> None:
    """headers are equal whatever the case and the order of names, and can be copied"""
    headers = headgate.Headers({"Content-Length": "13", "Custom": "example"})
    assert headers == {"custom": "example", "content-length": "13"}
    assert headers == headers.copy() == headgate.Headers(headers)
    assert headers is not headers.copy()
    assert headers != {"custom": "example"}
    assert headgate.Headers([("a", "1"), ("b", "2"), ("a", "3")]) == headgate.Headers(
        [("a", "1"), ("a", "3"), ("b", "2")]
    )
    assert headers != "Custom: example"


def test_headers_can_be_changed(client: headgate.Client) -> None:
    """setting a header replaces all of its name in its place; deleting one that is not there is a `KeyError`"""
    request = client.build_request("GET", HOST, headers=[("a", "1"), ("b", "2"), ("A", "3"), ("c", "4")])
    headers: Any = request.headers
    headers["a"] = "5"
    headers.setdefault("a", "6")
    headers.setdefault("d", "7")
    assert [("a", "5"), ("b", "2"), ("c", "4"), ("d", "7")] == headers.multi_items()
    del headers["A"]
    assert ["b", "c", "d"] == list(headers)
    for changed in (headers, client.headers):
        with pytest.raises(KeyError):
            del changed["baz"]


def test_secrets_are_hidden() -> None:
    """the `repr` of headers hides credentials"""
    for name in ("authorization", "proxy-authorization"):
        shown = repr(headgate.Headers({name: "s3kr3t", "other": "shown"}))
        assert "s3kr3t" not in shown
        assert "shown" in shown


@pytest.mark.usefixtures("echo")
def test_header_merging() -> None:
    """headers of a client are sent unless a call has the same; they can be changed and removed, defaults as well"""
    with headgate.Client(headers={"Example-Header": "value", "X-Name": "client"}) as client:
        seen = client.get(HOST, headers={"x-name": "call"}).json()["headers"]
        assert ("value", "call") == (seen["example-header"], seen["x-name"])
        client.headers.update({"User-Agent": "mine/1", "Another-Header": "AThing"})
        seen = client.get(HOST).json()["headers"]
        assert ("mine/1", "AThing", "client") == (seen["user-agent"], seen["another-header"], seen["x-name"])
        del client.headers["User-Agent"]
        assert "user-agent" not in client.get(HOST).json()["headers"]
        repeated = client.get(HOST, headers=[("x-header", "1"), ("x-header", "2,3")]).json()["headers"]
        assert ["1", "2", "3"] == [part.strip() for part in repeated["x-header"].split(",")]


@pytest.mark.usefixtures("echo")
def test_host_header(client: headgate.Client) -> None:
    """`Host` has neither the user of the URL nor the default port; the user becomes `Authorization`"""
    for port, host in [("", "example.org"), (":80", "example.org"), (":123", "example.org:123")]:
        seen = client.get(f"http://username:password@example.org{port}/").json()["headers"]
        assert (host, "Basic dXNlcm5hbWU6cGFzc3dvcmQ=") == (seen["host"], seen["authorization"])


def test_cookies_are_a_mapping() -> None:
    """cookies are a mapping; one of several with the same name is read and removed by its domain and path"""
    cookies = headgate.Cookies()
    assert not cookies
    cookies.set("name", "value", domain="example.com")
    assert ("value", True, 1, {"name": "value"}) == (cookies["name"], "name" in cookies, len(cookies), dict(cookies))
    more = headgate.Cookies()
    more.update(cookies)
    more.set("name", "other", domain="example.com", path="/subpath")
    more.set("name", "another", domain="example.org")
    with pytest.raises(headgate.CookieConflict):
        more["name"]
    assert "another" == more.get("name", domain="example.org")
    more.clear(domain="example.com", path="/subpath")
    more.delete("name", domain="example.org")
    assert cookies == more
    del more["name"]
    assert {} == dict(more)


def test_cookies_are_kept(mock: MockServer) -> None:
    """cookies that a response sets are attributes of it, and are sent later by a client that keeps them"""
    mock.get(f"{HOST}/set").respond(headers={"Set-Cookie": "name=value"})
    mock.get(f"{HOST}/echo").gives(lambda request: request.cookies)
    with headgate.Client(cookies=True) as client:
        assert {} == client.get(f"{HOST}/echo").json()
        response = client.get(f"{HOST}/set")
        assert {"name": "value"} == response.cookies == client.cookies == client.get(f"{HOST}/echo").json()


def test_cookies_of_a_client(mock: MockServer) -> None:
    """cookies of a client are names and values, a `CookieJar` or the cookies of another, and can be replaced"""
    mock.request(None).gives(lambda request: request.cookies)
    given = {"name": "value"}
    with headgate.Client(base_url=HOST, cookies=given) as first:
        for cookies in (given, list(given.items()), first.cookies, first.cookies.jar):
            with headgate.Client(base_url=HOST, cookies=cookies) as client:
                assert given == client.get("/").json()
                client.cookies = {"other": "1"}
                assert {"other": "1"} == client.get("/").json()
                client.cookies = given


def test_cookies_of_redirects(mock: MockServer) -> None:
    """a redirect sets a cookie, and another one expires it"""
    mock.get(f"{HOST}/").gives(lambda request: request.cookies)
    for path, cookie in (("login", "session=1; Path=/"), ("logout", "session=; Path=/; Max-Age=0")):
        mock.get(f"{HOST}/{path}").respond(303, headers={"Location": "/", "Set-Cookie": cookie})
    with headgate.Client(base_url=HOST, cookies=True) as client:
        seen = [client.get(path).json() for path in ("/", "/login", "/", "/logout", "/")]
    assert [{}, {"session": "1"}, {"session": "1"}, {}, {}] == seen


@pytest.mark.usefixtures("echo")
def test_query_parameters(client: headgate.Client) -> None:
    """parameters are text, numbers, booleans, `None` or lists, as a mapping, as pairs or as a query"""
    given: list[tuple[Any, str]] = [
        ("a=123&a=456&b=789", "a=123&a=456&b=789"),
        ({"a": ["123", "456"], "b": 789}, "a=123&a=456&b=789"),
        ((("a", "123"), ("a", "456"), ("b", "789")), "a=123&a=456&b=789"),
        ({"a": True, "b": False, "c": None, "d": "", "e": 1.23}, "a=true&b=false&c=&d=&e=1.23"),
    ]
    for params, query in given:
        assert f"{HOST}/?{query}" == client.get(HOST, params=params).json()["url"]
    assert f"{HOST}/" == client.get(HOST, params={}).json()["url"]


@pytest.mark.usefixtures("echo")
def test_parameters_of_a_client() -> None:
    """parameters of a client are sent with those of the call, which replace those of the same name"""
    with headgate.Client(params="first=str&page=1") as client:
        assert f"{HOST}/?first=str&page=1&second=dict" == client.get(HOST, params={"second": "dict"}).json()["url"]
        assert f"{HOST}/?first=str&page=2" == client.get(HOST, params={"page": 2}).json()["url"]


@pytest.mark.usefixtures("echo")
def test_urls(client: headgate.Client) -> None:
    """URLs are sent as browsers do: IDNA, percent-encoding, dots, IPv6 and default ports"""
    for url, sent in [
        ("HTTPS://EXAMPLE.org:443/a", "https://example.org/a"),
        ("https://中国.icom.museum/", "https://xn--fiqs8s.icom.museum/"),
        ("https://example.org/ä?q=ü b#part", "https://example.org/%C3%A4?q=%C3%BC%20b"),
        ("https://example.org/%2e/a/../b%2Fc", "https://example.org/b%2Fc"),
        ("http://[::ffff:192.168.0.1]:5678/", "http://[::ffff:192.168.0.1]:5678/"),
    ]:
        assert sent == client.get(url).json()["url"]


@pytest.mark.usefixtures("echo")
def test_methods(client: headgate.Client) -> None:
    """each method has a function, of a client and of the module"""
    for method in ("get", "options", "post", "put", "patch", "delete"):
        for of in (client, headgate):
            assert method.upper() == getattr(of, method)(HOST).json()["method"]
            assert method.upper() == of.request(method, HOST).json()["method"]
    assert b"" == client.head(HOST).content == headgate.head(HOST).content


@pytest.mark.usefixtures("echo")
def test_base_urls() -> None:
    """a relative URL is below the `base_url`, and an absolute one replaces it"""
    for base_url, url, sent in [
        ("https://www.example.com/", "http://www.example.com/", "http://www.example.com/"),
        ("https://www.example.com/", "/testing/123", "https://www.example.com/testing/123"),
        ("https://www.example.com/some/path", "/testing/123", "https://www.example.com/some/path/testing/123"),
        ("https://www.example.com/some/path", "../testing/123", "https://www.example.com/some/testing/123"),
        ("https://www.example.com/some/path", "/testing:123", "https://www.example.com/some/path/testing:123"),
        ("https://www.example.com/base%2Fpath", "/testing%2F1", "https://www.example.com/base%2Fpath/testing%2F1"),
    ]:
        with headgate.Client(base_url=base_url) as client:
            assert sent == client.get(url).json()["url"]
            assert base_url == client.base_url


@pytest.mark.parametrize("url", ["invalid://example.org", "://example.org", "http://", "/relative"])
def test_invalid_urls(client: headgate.Client, url: str) -> None:
    """a URL with another scheme, without one, or without a host is refused"""
    with pytest.raises(headgate.InvalidRequest):
        client.get(url)


@pytest.mark.usefixtures("echo")
def test_closing() -> None:
    """a client that is closed says so, and makes no more requests"""
    with headgate.Client() as client:
        states = [client.is_closed]
        client.get(HOST)
        states.append(client.is_closed)
    assert [False, False, True] == [*states, client.is_closed]
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.get(HOST)
    with pytest.raises(RuntimeError, match="the client is closed"), client:
        pass


@pytest.mark.usefixtures("echo")
def test_built_requests(client: headgate.Client) -> None:
    """`build_request` makes a request whose headers can be changed before `send`"""
    request = client.build_request("POST", f"{HOST}/echo")
    headers: Any = request.headers
    headers.update({"Custom-header": "value"})
    response = client.send(request)
    assert ("value", "0") == (response.json()["headers"]["custom-header"], response.json()["headers"]["content-length"])


def redirecting(mock: MockServer, status: int, location: str) -> None:
    """Redirects what begins with `/from`, and answers to all else with what was sent."""
    mock.request(None, prefix="/from").respond(status, headers={"Location": location})

    def target(request: MockRequest) -> MockResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        return MockResponse(json={"method": request.method, "body": request.text, "headers": headers})

    mock.request(None, response=target)


def test_redirected_methods(client: headgate.Client) -> None:
    """301, 302 and 303 make a GET of a POST, without its body; 307 and 308 keep both"""
    for status, method, body in [
        (301, "GET", ""),
        (302, "GET", ""),
        (303, "GET", ""),
        (307, "POST", "Example"),
        (308, "POST", "Example"),
    ]:
        with headgate.testing.mock() as mock:
            redirecting(mock, status, "/to")
            response = client.post(f"{HOST}/from", content=b"Example")
            seen = response.json()
            assert (method, body, f"{HOST}/to", 1) == (
                seen["method"],
                seen["body"],
                response.url,
                len(response.history),
            )
            assert ("content-length" in seen["headers"]) is bool(body)
            assert "content-type" in seen["headers"] or not body


def test_redirect_locations(client: headgate.Client) -> None:
    """a location may be relative, or without a scheme"""
    for location, url in [
        ("/", f"{HOST}/"),
        ("to?a=1", f"{HOST}/to?a=1"),
        ("//other.example/", "https://other.example/"),
        ("https://:443/", None),
        ("https://😇/", "https://xn--l28h/"),
        ("market://details?id=42", None),
    ]:
        with headgate.testing.mock(assert_all_called=False) as mock:
            redirecting(mock, 303, location)
            if url is None:
                with pytest.raises(headgate.RequestError):
                    client.get(f"{HOST}/from")
            else:
                assert url == client.get(f"{HOST}/from").url


def test_redirect_switch(mock: MockServer, client: headgate.Client) -> None:
    """following redirects can be turned on and off, also for HEAD, also for one call, and streams"""
    redirecting(mock, 302, "/to")
    assert (302, "/to") == (
        (first := client.get(f"{HOST}/from", follow_redirects=False)).status_code,
        first.headers["location"],
    )
    assert 1 == len(client.head(f"{HOST}/from").history)
    with client.stream("GET", f"{HOST}/from", follow_redirects=False) as response:
        assert 302 == response.status_code
    with headgate.Client(follow_redirects=False) as other:
        assert 302 == other.get(f"{HOST}/from").status_code
        assert 200 == other.get(f"{HOST}/from", follow_redirects=True).status_code


def test_redirect_limits(mock: MockServer) -> None:
    """more redirects than allowed, and a loop, are errors"""

    def next_one(request: MockRequest) -> MockResponse | int:
        count = int(request.path_params["count"])
        return MockResponse(303, headers={"Location": f"/from/{count - 1}"}) if count else 200

    mock.get("/from/{count}", response=next_one)
    mock.get("/loop").respond(303, headers={"Location": "/loop"})
    with headgate.Client(max_redirects=20) as client:
        response = client.get(f"{HOST}/from/20")
        assert (f"{HOST}/from/0", 20) == (response.url, len(response.history))
        assert f"{HOST}/from/20" == response.history[0].url
        with pytest.raises(headgate.TooManyRedirects):
            client.get(f"{HOST}/from/21")
        with pytest.raises(headgate.TooManyRedirects):
            client.get(f"{HOST}/loop")


def test_redirected_credentials(client: headgate.Client) -> None:
    """`Authorization` stays within its origin when a redirect leads to another"""
    for location, stays in [("/to", True), ("https://other.example/to", False), (f"{HOST}:444/to", False)]:
        with headgate.testing.mock() as mock:
            redirecting(mock, 303, location)
            for given in ({"headers": {"Authorization": "abc"}}, {"auth": ("user", "pass")}):
                seen = client.get(f"{HOST}/from", **given).json()["headers"]
                assert stays is ("authorization" in seen)


@pytest.mark.usefixtures("echo")
def test_credentials() -> None:
    """`auth` of a client or of a call is a pair, or a function that changes the request; `None` sends nothing"""
    basic = "Basic dXNlcjpwYXNzd29yZDEyMw=="

    def sign(request: headgate.PreparedRequest) -> headgate.PreparedRequest:
        request.headers["Authorization"] = "Token 123"
        return request

    def sent(of: headgate.Client, **options: Any) -> str | None:
        found: str | None = of.get("/", **options).json()["headers"].get("authorization")
        return found

    pair: Any = ("user", "password123")
    for auth, expected in [(pair, basic), (sign, "Token 123")]:
        with headgate.Client(base_url=HOST, auth=auth) as client:
            assert expected == sent(client)
            assert None is sent(client, auth=None)
            assert "own" == sent(client, headers={"Authorization": "own"})
        with headgate.Client(base_url=HOST) as client:
            assert None is sent(client)
            assert expected == sent(client, auth=auth)
    with headgate.Client(base_url=HOST.replace("//", "//user:password123@")) as client:
        assert basic == sent(client)
    with pytest.raises(headgate.UsageError), headgate.Client(base_url=HOST, auth="no pair"):  # type: ignore[arg-type]
        pass


@pytest.mark.usefixtures("echo")
def test_asynchronous_credentials() -> None:
    """the function of an `AsyncClient` may be asynchronous"""

    async def sign(request: headgate.PreparedRequest) -> None:
        await asyncio.sleep(0)
        request.headers["Authorization"] = "async-auth"

    async def main() -> str:
        async with headgate.AsyncClient() as client:
            return str((await client.get(HOST, auth=sign)).json()["headers"]["authorization"])

    assert "async-auth" == asyncio.run(main())


def deflated(body: bytes, window: int) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, window)
    return compressor.compress(body) + compressor.flush()


BODY = b"test 123"
ENCODED = [
    ("deflate", deflated(BODY, -zlib.MAX_WBITS)),
    ("deflate", zlib.compress(BODY)),
    ("gzip", gzip.compress(BODY, mtime=0)),
    ("br", b"\x8b\x03\x80test 123\x03"),
    ("zstd", bytes.fromhex("28b52ffd2008410000") + BODY),
    ("deflate, gzip", gzip.compress(deflated(BODY, -zlib.MAX_WBITS), mtime=0)),
    ("br, identity", b"\x8b\x03\x80test 123\x03"),
    ("identity, br", b"\x8b\x03\x80test 123\x03"),
    ("identity", BODY),
]


@pytest.mark.parametrize(("encoding", "content"), ENCODED, ids=[encoding for encoding, _ in ENCODED])
def test_decoding(mock: MockServer, client: headgate.Client, encoding: str, content: bytes) -> None:
    """gzip, deflate of both kinds, brotli, zstd and several of them are decoded, also as they arrive"""
    respond(mock, content=content, headers={"Content-Encoding": encoding})
    assert BODY == client.get(HOST).content
    respond(mock, content=[content[:3], content[3:]], headers={"Content-Encoding": encoding})
    with client.stream("GET", HOST) as response:
        assert BODY == response.read()
    respond(mock, content=b"", headers={"Content-Encoding": encoding})
    assert b"" == client.get(HOST).content


@pytest.mark.parametrize("encoding", ["deflate", "gzip", "br", "zstd"])
def test_decoding_errors(mock: MockServer, encoding: str) -> None:
    """a body that is not encoded as it says is an error"""
    respond(mock, content=b"invalid", headers={"Content-Encoding": encoding})
    with headgate.Client(retries=0) as client, pytest.raises(headgate.DecodeError):
        client.get(HOST)


def test_timeouts(mock: MockServer) -> None:
    """a response that does not come in time is a timeout, which the client or the call sets"""
    respond(mock, delay=60)
    with headgate.Client(retries=0, timeout=0.05) as client, pytest.raises(headgate.ReadTimeout) as raised:
        client.get(HOST)
    assert isinstance(raised.value, headgate.RequestTimeout)
    with headgate.Client(retries=0) as client, pytest.raises(TimeoutError):
        client.send(headgate.Request(HOST, timeout=0.05))


def test_no_timeouts(mock: MockServer) -> None:
    """`None` is no timeout, of a client and of a call"""
    respond(mock, delay=0.2)
    with headgate.Client(retries=0, timeout=0.05) as client:
        assert 200 == client.get(HOST, timeout=None).status_code
    with headgate.Client(retries=0, timeout=None, total_timeout=None) as client:
        assert 200 == client.get(HOST).status_code


def test_waiting_for_a_connection(mock: MockServer) -> None:
    """the wait for a free connection has a timeout of its own"""
    respond(mock, content=[b"a", b"b"])

    async def main() -> None:
        async with headgate.AsyncClient(concurrency=1, pool_timeout=0.05) as client:
            async with client.stream("GET", HOST) as response:
                with pytest.raises(headgate.PoolTimeout):
                    await client.get(HOST)
                await response.aread()
            assert 200 == (await client.get(HOST)).status_code

    asyncio.run(main())


def test_errors() -> None:
    """each kind of failure has a class, below one for all"""
    for kind in ("ConnectError", "ConnectTimeout", "ReadTimeout", "TlsError", "ProxyError", "ConnectionClosed"):
        with headgate.testing.mock() as inner, headgate.Client(retries=0) as client:
            inner.get(error=getattr(headgate, kind))
            with pytest.raises(headgate.RequestError) as raised:
                client.get(HOST)
            assert kind == type(raised.value).__name__


async def hello_world(scope: Any, receive: Any, send: Any) -> None:
    """An ASGI application."""
    if scope["path"] == "/raises":
        raise ValueError("of the application")
    message = await receive()
    body = {
        "path": scope["path"],
        "query": scope["query_string"].decode(),
        "body": message["body"].decode(),
        "header": dict(scope["headers"]).get(b"x-own", b"").decode(),
    }
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def test_applications() -> None:
    """an ASGI application is called without a network: with path, query, headers and body"""

    async def main() -> Any:
        async with headgate.AsyncClient(app=hello_world, base_url=HOST) as client:
            return (await client.post("/a%20b?c=1", content=b"Hello", headers={"X-Own": "1"})).json()

    assert {"path": "/a b", "query": "c=1", "body": "Hello", "header": "1"} == asyncio.run(main())


def test_errors_of_applications() -> None:
    """an exception of the application is raised by the call"""

    async def main() -> None:
        async with headgate.AsyncClient(app=hello_world, base_url=HOST, retries=0) as client:
            with pytest.raises(ValueError, match="of the application"):
                await client.get("/raises")

    asyncio.run(main())


def pieces() -> Iterator[bytes]:
    """A body that is made while it is sent."""
    yield b"Hello, "
    yield b"world!"


@pytest.mark.usefixtures("echo")
def test_streamed_bodies(client: headgate.Client) -> None:
    """a body is a file or an iterator, which is sent as it is read, in chunks if its length is not known"""
    for content, length in [(io.BytesIO(b"Hello, world!"), "13"), (pieces(), None), (list(pieces()), "13")]:
        seen = client.post(HOST, content=content).json()
        assert ("Hello, world!", length) == (seen["body"], seen["headers"].get("content-length"))
        assert (length is None) is ("transfer-encoding" in seen["headers"])

    async def made() -> AsyncIterator[bytes]:
        for piece in pieces():
            yield piece

    async def main() -> str:
        async with headgate.AsyncClient() as of_loop:
            return str((await of_loop.post(HOST, content=made())).json()["body"])

    assert "Hello, world!" == asyncio.run(main())
    with pytest.raises((TypeError, headgate.InvalidRequest)):
        client.post(HOST, content=made())  # type: ignore[arg-type]


def test_bodies_that_are_gone(client: headgate.Client) -> None:
    """an iterator that was sent is not sent to where a redirect leads"""
    with headgate.testing.mock(assert_all_called=False) as mock:
        redirecting(mock, 308, "/to")
        with pytest.raises(headgate.RequestError):
            client.post(f"{HOST}/from", content=pieces())
        assert ["/from"] == [call.request.path for call in mock.calls]


BOUNDARY = {"Content-Type": "multipart/form-data; boundary=+++"}


@pytest.mark.usefixtures("echo")
def test_forms_with_files(client: headgate.Client, tmp_path: Path) -> None:
    """files of a form are bytes, text or open files, with a name, a type and headers of their own"""
    path = tmp_path / "name.txt"
    path.write_bytes(b"content")
    disposition = 'Content-Disposition: form-data; name="f"'
    with path.open("rb") as file:
        files: list[tuple[Any, str]] = [
            (io.BytesIO(b"content"), f'{disposition}; filename="upload"\r\nContent-Type: application/octet-stream'),
            (file, f'{disposition}; filename="name.txt"\r\nContent-Type: text/plain'),
            (("a.json", b"content"), f'{disposition}; filename="a.json"\r\nContent-Type: application/json'),
            (("a.txt", "content", "a/b"), f'{disposition}; filename="a.txt"\r\nContent-Type: a/b'),
            ((None, b"content"), disposition),
            (
                ("a.txt", b"content", "text/plain", {"Expires": "0"}),
                f'{disposition}; filename="a.txt"\r\nExpires: 0\r\nContent-Type: text/plain',
            ),
            (('a"b.txt', b"content", "a/b"), f'{disposition}; filename="a%22b.txt"\r\nContent-Type: a/b'),
        ]
        for given, head in files:
            seen = client.post(HOST, files={"f": given}, headers=BOUNDARY).json()
            body = f"--+++\r\n{head}\r\n\r\ncontent\r\n--+++--\r\n"
            assert (body, str(len(body))) == (seen["body"], seen["headers"]["content-length"])


@pytest.mark.usefixtures("echo")
def test_fields_of_forms(client: headgate.Client) -> None:
    """fields beside the files are text, bytes, booleans or lists; other types, and files of text, are refused"""
    data: dict[str, Any] = {"a": "1", "b": b"C", "c": ["11", "22"], "d": "", "e": True}
    body = client.post(HOST, data=data, files={"f": b""}, headers=BOUNDARY).json()["body"]
    fields = [("a", "1"), ("b", "C"), ("c", "11"), ("c", "22"), ("d", ""), ("e", "true")]
    parts = [f'--+++\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in fields]
    assert body.startswith("".join(parts))
    mistakes: list[dict[str, Any]] = [
        {"data": {1: "a"}, "files": {"f": b""}},
        {"data": {"a": object()}, "files": {"f": b""}},
        {"files": {"f": ("a.txt", io.StringIO("content"))}},
    ]
    for wrong in mistakes:
        with pytest.raises(headgate.InvalidRequest) as raised:
            client.post(HOST, **wrong)
        assert isinstance(raised.value.__cause__, TypeError)


def test_requests_as_sent(mock: MockServer, client: headgate.Client) -> None:
    """responses and errors have the request as it was sent, with its URL, method and headers"""
    mock.get("/fails", error="connect")
    mock.request(None).respond(404)
    response = client.get(f"{HOST}/a", params={"b": 1}, headers={"X-Own": "1"})
    with headgate.Client(retries=0) as other, pytest.raises(headgate.RequestError) as raised:
        other.get(f"{HOST}/fails")
    for request, url in [(response.request, f"{HOST}/a?b=1"), (raised.value.request, f"{HOST}/fails")]:
        assert request is not None
        assert ("GET", url) == (request.method, request.url)
    assert ("1", "example.org") == (response.request.headers["x-own"], response.request.headers["host"])
    with pytest.raises(headgate.StatusError) as status_error:
        response.raise_for_status()
    assert response.request == status_error.value.request


def test_unknown_encodings(mock: MockServer, client: headgate.Client) -> None:
    """a body with an unknown encoding is left as it is"""
    respond(mock, content=BODY, headers={"Content-Encoding": "unknown"})
    assert BODY == client.get(HOST).content


def test_fragments(mock: MockServer, client: headgate.Client) -> None:
    # The table says that it differs here.
    mock.get("/from").respond(303, headers={"Location": "/to"})
    mock.get("/to").respond(200)
    assert f"{HOST}/to" == client.get(f"{HOST}/from#part").url


def test_hooks(mock: MockServer) -> None:
    """hooks get each request with all its headers, which they can change, and each response"""
    mock.request(None).respond(200, headers={"Server": "testserver"})
    events: list[tuple[str, dict[str, str]]] = []

    def on_request(request: headgate.PreparedRequest) -> None:
        request.headers["X-Hook"] = "1"
        events.append(("request", {name.lower(): value for name, value in request.headers.items()}))

    def on_response(response: headgate.Response) -> None:
        events.append((response.request.method, {name.lower(): value for name, value in response.headers.items()}))

    with headgate.Client(hooks={"request": [on_request], "response": on_response}) as client:
        client.get(HOST, auth=("user", "password"))
    (of_request, sent), (of_response, received) = events
    assert ("request", "GET", "testserver") == (of_request, of_response, received["server"])
    assert {"host", "user-agent", "accept", "accept-encoding", "authorization", "x-hook"} == set(sent)
    assert "1" == mock.calls[0].request.headers["x-hook"]


def test_errors_of_hooks(mock: MockServer) -> None:
    """an exception of a hook is raised by the call"""
    respond_with_400 = mock.request(None).respond(400)

    def raise_on_error(response: headgate.Response) -> None:
        response.raise_for_status()

    with headgate.Client(hooks={"response": raise_on_error}) as client, pytest.raises(headgate.StatusError):
        client.get(HOST)
    assert 1 == respond_with_400.call_count


def test_asynchronous_hooks(mock: MockServer) -> None:
    """the hooks of an `AsyncClient` may be asynchronous"""
    respond(mock)
    events: list[str] = []

    async def on_request(request: headgate.PreparedRequest) -> None:
        await asyncio.sleep(0)
        events.append(request.method)

    async def on_response(response: headgate.Response) -> None:
        await asyncio.sleep(0)
        events.append(str(response.status_code))

    async def main() -> None:
        async with headgate.AsyncClient(hooks={"request": on_request, "response": on_response}) as client:
            await client.get(HOST)

    asyncio.run(main())
    assert ["GET", "200"] == events


def test_logging(mock: MockServer, client: headgate.Client, caplog: pytest.LogCaptureFixture) -> None:
    """each request is a line of `logging` at the level INFO"""
    respond(mock)
    caplog.set_level(logging.INFO)
    client.get(HOST)
    (record,) = [record for record in caplog.records if record.name.startswith("headgate")]
    assert logging.INFO == record.levelno
    assert "GET https://example.org" in record.getMessage()
    assert "200" in record.getMessage()


def test_every_promise_that_holds_has_a_test() -> None:
    tests = [thing for name, thing in vars(sys.modules[__name__]).items() if name.startswith("test_") and thing.__doc__]
    rows = table(PAGE, "tests of httpx", "what they check", "here")
    assert sorted(inspect.getdoc(test) or "" for test in tests) == sorted(row[1] for row in rows if row[2] == "holds")
