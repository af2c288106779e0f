"""Which requests a route of a mock responses, and the short forms of responses."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any
from unittest.mock import ANY

import pytest

import headgate
import headgate.testing
from headgate.testing import MockResponse

SENT = "https://api.example.com/v1/users/7?page=2&page=3&q=a%20b"


@pytest.fixture(scope="module")
def client() -> Iterator[headgate.Client]:
    with headgate.Client(retries=0, redirects="none", concurrency=1) as client:
        yield client


def pattern(url: Any = None, *, method: str | None = None, base_url: str = "", **given: Any) -> dict[str, Any]:
    """Returns the arguments of a route, and the `base_url` of its mock."""
    return {"method": method, "url": url, "base_url": base_url} | given


def match(
    client: headgate.Client, pattern: dict[str, Any], url: str = SENT, method: str = "GET", **sent: Any
) -> dict[str, str] | None:
    """Returns the values of the names in a pattern, or `None` if its route does not response the request."""
    given = dict(pattern)
    mock = headgate.testing.mock(base_url=given.pop("base_url"), assert_all_mocked=False, assert_all_called=False)
    route = mock.route(given.pop("method"), given.pop("url"), **given)
    with mock:
        try:
            client.request(method, url, **sent)
        except headgate.InvalidRequest:
            assert 0 == route.call_count
            return None
    return route.calls[0].request.path_params


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        ({}, pattern()),
        ({}, pattern("https://api.example.com/v1/users/7")),
        ({}, pattern("https://API.example.com:443/v1/users/7?q=a+b&page=3&page=2")),
        (None, pattern("https://api.example.com/v1/users/7?page=2")),
        (None, pattern("http://api.example.com/v1/users/7")),
        (None, pattern("https://api.example.com/v1/users")),
        ({}, pattern("/v1/users/7")),
        ({"id": "7"}, pattern("/v1/users/{id}")),
        ({"a": "v1", "id": "7"}, pattern("https://api.example.com/{a}/users/{id}")),
        (None, pattern("/v1/{id}")),
        ({}, pattern("/users/7", base_url="https://api.example.com/v1/")),
        (None, pattern("/users/7", base_url="https://other.example.com/v1")),
        ({}, pattern(base_url="https://api.example.com/")),
        ({"id": "7"}, pattern(re.compile(r"/users/(?P<id>\d+)\?"))),
        (None, pattern(re.compile(r"^/users"))),
        ({}, pattern(method="get")),
        (None, pattern(method="POST")),
        ({}, pattern(scheme="https", host="api.example.com", port=443, path="/v1/users/7")),
        (None, pattern(port=8080)),
        ({}, pattern(host=re.compile(r"\.example\.com$"), path=re.compile("^/v1/"))),
        ({}, pattern(prefix="https://api.example.com/v1/")),
        ({}, pattern(prefix="/v1/")),
        ({}, pattern(prefix="/v1/", base_url="https://api.example.com")),
        (None, pattern(prefix="/v2/")),
        ({}, pattern(params={"page": 3})),
        ({}, pattern(params={"page": ["2", "3"], "q": ANY})),
        (None, pattern(params={"page": ["2", "4"]})),
        (None, pattern(params={"missing": ANY})),
    ],
)
def test_a_request_must_match_all_parts_of_a_pattern(
    expected: dict[str, str] | None, given: dict[str, Any], client: headgate.Client
) -> None:
    assert expected == match(client, given)


@pytest.mark.parametrize(
    ("expected", "given"),
    [
        ({}, {"headers": {"X-TRACE": "a7"}}),
        ({}, {"headers": {"x-trace": re.compile(r"\d")}}),
        ({}, {"headers": {"x-trace": ANY}}),
        (None, {"headers": {"x-trace": "a8"}}),
        (None, {"headers": {"x-other": ANY}}),
        ({}, {"json_body": {"b": [1, None], "a": ANY}}),
        (None, {"json_body": {"b": [1, None]}}),
        (None, {"json_body": {"b": [True, None], "a": ANY}}),
        ({}, {"json_body": {"b": [ANY, None], "a": "ü"}}),
        ({}, {"json_body": {"b": ANY, "a": "ü"}}),
        (None, {"json_body": {"b": [1], "a": "ü"}}),
        ({}, {"body": b'{"a": "\xc3\xbc", "b": [1, null]}'}),
        ({}, {"body": re.compile('"b"')}),
        (None, {"body": "a"}),
    ],
)
def test_a_pattern_may_name_headers_and_a_body(
    expected: dict[str, str] | None, given: dict[str, Any], client: headgate.Client
) -> None:
    body = '{"a": "ü", "b": [1, null]}'.encode()
    assert expected == match(client, pattern(**given), method="POST", content=body, headers={"X-Trace": "a7"})


@pytest.mark.parametrize(
    ("matches", "expected", "found"),
    [
        (True, 1, b"1"),
        (True, 1.0, b"1"),
        (False, 1, b"true"),
        (False, False, b"0"),
        (True, False, b"false"),
        (True, ANY, b"true"),
        (True, None, b"null"),
        (False, [], b"{}"),
    ],
)
def test_a_number_is_no_truth_value(matches: bool, expected: object, found: bytes, client: headgate.Client) -> None:
    assert matches == (match(client, pattern(json_body=expected), method="POST", content=found) is not None)


def test_a_body_that_is_no_json_matches_no_pattern_for_json(client: headgate.Client) -> None:
    assert match(client, pattern(json_body=None), method="POST", content=b"{") is None


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("https://xn--bcher-kva.example/%C3%BC%20b", "https://bücher.example/ü b"),
        ("http://a.example/", "http://a.example"),
    ],
)
def test_urls_may_be_written_as_people_write_them(url: str, written: str, client: headgate.Client) -> None:
    assert match(client, pattern(written), url) == {}


def test_a_name_in_a_path_stands_for_decoded_text(client: headgate.Client) -> None:
    assert {"name": "ü b"} == match(client, pattern("/users/{name}"), "http://a.example/users/%C3%BC%20b")


def test_a_route_shows_its_pattern_as_it_was_given() -> None:
    mock = headgate.testing.mock(base_url="https://a.example")
    route = mock.route("post", "/users", params={"page": 1}, body=re.compile("x"))
    shown = "POST https://a.example/users params={'page': 1}, body=re.compile('x')"
    assert f"<headgate.testing.Route {shown}>" == repr(route)
    assert "<headgate.testing.Route any method>" == repr(headgate.testing.mock().route())


@pytest.mark.parametrize(
    ("status", "content", "kind", "given"),
    [
        (200, b"", None, MockResponse()),
        (503, b"", None, 503),
        (200, b'{"a":1}', "application/json", {"a": 1}),
        (200, b"[1]", "application/json", [1]),
        (201, b"null", "application/json", (201, None)),
        (200, b"text", "text/plain; charset=utf-8", "text"),
        (404, b"bytes", None, (404, b"bytes")),
        (200, b"<p>", "text/html; charset=utf-8", MockResponse(html="<p>")),
        (200, b"1", "application/hal+json", MockResponse(json=1, headers={"content-type": "application/hal+json"})),
    ],
)
def test_a_response_may_be_given_in_short(
    status: int, content: bytes, kind: str | None, given: Any, client: headgate.Client
) -> None:
    with headgate.testing.mock() as mock:
        mock.get(SENT, response=given)
        response = client.get(SENT)
    assert (status, content, kind) == (response.status_code, response.content, response.headers.get("content-type"))


@pytest.mark.parametrize(
    ("expected", "message", "given"),
    [
        (headgate.TlsError, "the mock says so", headgate.TlsError),
        (headgate.ConnectError, "no route", headgate.ConnectError("no route")),
    ],
)
def test_a_response_may_be_an_error_by_its_class_or_with_a_message(
    expected: type[Exception], message: str, given: Any, client: headgate.Client
) -> None:
    with headgate.testing.mock() as mock:
        mock.get(SENT, response=given)
        with pytest.raises(expected, match=message):
            client.get(SENT)


def test_calls_are_kept_up_to_1000_and_64_mib_of_bodies(client: headgate.Client) -> None:
    with headgate.testing.mock() as mock:
        route = mock.route(prefix="http://a.example/")
        for number in range(1003):
            client.get(f"http://a.example/{number}")
        assert (1000, 1003) == (len(route.calls), route.calls.total)
        assert ("/3", "/1002") == (route.calls[0].request.path, route.calls[-1].request.path)

        client.post("http://a.example/large", content=bytes(64 * 1024**2))
        assert ["/large"] == [call.request.path for call in route.calls if call.request.content]
        assert 1000 == len(route.calls)
        client.post("http://a.example/last", content=b"1")
        assert ["/last"] == [call.request.path for call in route.calls]


def test_a_request_arrives_as_it_was_sent(client: headgate.Client) -> None:
    with headgate.testing.mock() as mock:
        mock.route(prefix="/")
        client.post("https://a.example/a?b", content=b"abc", headers=[("X", "1"), ("x", "2")])
        client.get("https://a.example/")
    first, second = (call.request for call in mock.calls)
    assert ("POST", "https://a.example/a?b", b"abc") == (first.method, first.url, first.content)
    assert ["1", "2"] == first.headers.get_list("x")
    assert ("GET", "https://a.example/", b"") == (second.method, second.url, second.content)


@pytest.mark.parametrize(
    ("expected", "method", "response"),
    [
        ((200, "1", b"a"), "GET", MockResponse(content=b"a")),
        ((200, "1", b""), "HEAD", MockResponse(content=b"a")),
        ((200, "9", b""), "HEAD", MockResponse(content=b"a", headers={"content-length": "9"})),
        ((204, None, b""), "GET", MockResponse(204, content=b"a")),
        ((799, "0", b""), "GET", MockResponse(799, headers={"Connection": "close"})),
    ],
)
def test_responses_have_the_length_of_their_header(
    expected: tuple[int, str | None, bytes], method: str, response: MockResponse, client: headgate.Client
) -> None:
    with headgate.testing.mock() as mock:
        mock.route(method, SENT).gives(response)
        for _ in range(2):  # the second one on the same connection, or on a new one
            got = client.request(method, SENT)
            assert expected == (got.status_code, got.headers.get("content-length"), got.content)


@pytest.mark.parametrize(
    "response",
    [
        MockResponse(content=b"abc", cut_after=1),
        MockResponse(content=b"a", headers={"content-length": "9"}, cut_after=1),
    ],
)
def test_a_response_may_be_cut_off(response: MockResponse, client: headgate.Client) -> None:
    with headgate.testing.mock() as mock:
        mock.get(SENT).gives(response)
        with pytest.raises(headgate.ConnectionClosed, match="middle of the body"):
            client.get(SENT)


FORM = {"name": "Ann B", "tag": ["a", "b"], "empty": ""}
FILES = {"photo": ("cat.png", b"\x89PNG", "image/png"), "text": ('a "b".txt', b"some text")}


@pytest.mark.parametrize("files", [None, FILES])
@pytest.mark.parametrize(
    ("matches", "data"),
    [
        (True, {}),
        (True, {"name": "Ann B"}),
        (True, {"name": re.compile("^Ann"), "tag": "b", "empty": ""}),
        (True, {"tag": ["a", "b"]}),
        (True, {"name": ANY}),
        (False, {"tag": ["a", "c"]}),
        (False, {"name": "Ann"}),
        (False, {"missing": ANY}),
    ],
)
def test_a_pattern_may_name_fields_of_a_form(
    matches: bool, data: dict[str, Any], files: Any, client: headgate.Client
) -> None:
    sent = {"data": FORM} | ({"files": files} if files else {})
    assert matches == (match(client, pattern(data=data), method="POST", **sent) is not None)


@pytest.mark.parametrize(
    ("matches", "files"),
    [
        (True, {"photo": b"\x89PNG"}),
        (True, {"photo": ANY, "text": "some text"}),
        (True, {"photo": ("cat.png", ANY)}),
        (True, {"photo": (re.compile("png$"), re.compile(b"^.PNG"), "image/png")}),
        (True, {"text": ('a "b".txt', re.compile("text$"), ANY)}),
        (False, {"photo": ("dog.png", ANY)}),
        (False, {"photo": ("cat.png", ANY, "image/gif")}),
        (False, {"photo": b"GIF"}),
        (False, {"missing": ANY}),
    ],
)
def test_a_pattern_may_name_files_of_a_form(matches: bool, files: dict[str, Any], client: headgate.Client) -> None:
    assert matches == (match(client, pattern(files=files), method="POST", data=FORM, files=FILES) is not None)


def test_a_request_has_its_form(client: headgate.Client) -> None:
    with headgate.testing.mock() as mock:
        route = mock.post("/")
        client.post("http://a.example/", data=FORM, files={"text": ("a.txt", b"\r\n--x\r\n")})
        client.post("http://a.example/", data=FORM)
        client.post("http://a.example/", content=b"name=Ann", headers={"Content-Type": "multipart/form-data"})
    multipart, urlencoded, other = (call.request for call in route.calls)
    fields = {"name": ["Ann B"], "tag": ["a", "b"], "empty": [""]}
    assert (fields, fields, {}) == (multipart.form, urlencoded.form, other.form)
    assert ("a.txt", b"\r\n--x\r\n") == multipart.files["text"][0][:2]
    assert ({}, {}) == (urlencoded.files, other.files)


@pytest.mark.parametrize(
    ("matches", "cookies"),
    [
        (True, {}),
        (True, {"a": "1"}),
        (True, {"a": 1, "b": re.compile("2")}),
        (True, {"b": ANY}),
        (False, {"a": "2"}),
        (False, {"c": ANY}),
    ],
)
def test_a_pattern_may_name_cookies(matches: bool, cookies: dict[str, Any], client: headgate.Client) -> None:
    found = match(client, pattern(cookies=cookies), headers={"Cookie": "a=1; b=x=2; flag"})
    assert matches == (found is not None)


def test_a_pattern_may_have_a_function(client: headgate.Client) -> None:
    is_long = pattern("/v1/users/{id}", matches=lambda request: len(request.content) > 3)
    assert {"id": "7"} == match(client, is_long, method="POST", content=b"long")
    assert match(client, is_long, method="POST", content=b"no") is None


def test_an_error_of_a_function_is_raised_at_the_end(client: headgate.Client) -> None:
    with headgate.testing.mock(assert_all_mocked=False, assert_all_called=False) as mock:
        mock.get(matches=lambda request: request.json()["a"])
        with pytest.raises(headgate.InvalidRequest, match="could not be computed"):
            client.get("http://a.example/")
    with pytest.raises(AssertionError, match="JSONDecodeError"):
        mock.assert_all_mocked()


def test_texts_within_json_may_be_regular_expressions_and_lists_tuples(client: headgate.Client) -> None:
    given = pattern(json_body={"id": re.compile("^u-"), "tags": ("a", ANY)})
    assert match(client, given, method="POST", json={"id": "u-7", "tags": ["a", "b"]}) is not None
    assert match(client, given, method="POST", json={"id": 7, "tags": ["a", "b"]}) is None


class Between:
    """Compares itself with a value, as objects of dirty-equals do."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int | str) and self._low <= int(other) <= self._high

    __hash__ = None  # type: ignore[assignment]


def test_objects_that_compare_themselves_are_values(client: headgate.Client) -> None:
    assert match(client, pattern(json_body={"n": Between(1, 3)}), method="POST", json={"n": 2}) is not None
    assert match(client, pattern(json_body={"n": Between(1, 3)}), method="POST", json={"n": 4}) is None
    assert match(client, pattern(params={"page": Between(3, 4)})) is not None


class Kind(Enum):
    SMALL = "small"


class CallableObject:
    def __call__(self, _: object) -> bool:
        return True


@pytest.mark.parametrize("value", [None, True, False, 2, 1.5, Kind.SMALL])
def test_a_value_matches_what_the_client_sends_for_it(value: object, client: headgate.Client) -> None:
    assert match(client, pattern(params={"a": value}), params={"a": value}) is not None
    assert match(client, pattern(data={"a": value}), method="POST", data={"a": value}) is not None


def test_a_predicate_that_returns_an_awaitable_is_an_error(client: headgate.Client) -> None:
    with headgate.testing.mock(assert_all_mocked=False, assert_all_called=False) as mock:
        mock.get(SENT, matches=lambda request: later(request))  # noqa: PLW0108 - nothing says that it is asynchronous
        with pytest.raises(headgate.InvalidRequest, match=r"TypeError: matches must be .* has returned an awaitable"):
            client.get(SENT)


async def later(_: object) -> bool:
    return True


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": 1}, "method must be text, not int"),
        ({"method": b"GET"}, "method must be text, not bytes"),
        ({"url": lambda _: True}, "url must be text or a regular expression, not function"),
        ({"url": re.compile(b"a")}, "url must be a regular expression for text"),
        ({"prefix": re.compile("a")}, "prefix must be text, not Pattern"),
        ({"scheme": 1}, "scheme must be text"),
        ({"host": ["a.example"]}, "host must be text or a regular expression, not list"),
        ({"path": 7}, "path must be text or a regular expression"),
        ({"port": "443"}, "port must be a number, not str"),
        ({"port": True}, "port must be a number, not bool"),
        ({"params": "a=1"}, "params must be a mapping of names and values, not str"),
        ({"params": {"a": lambda _: True}}, r"params\['a'\] must be a value, not a function: .*matches=function"),
        ({"params": {"a": [b"1"]}}, r"params\['a'\] must be text, a number"),
        ({"params": {1: "a"}}, "params must have names in text"),
        ({"headers": [("a", "b")]}, "headers must be a mapping"),
        ({"headers": {"a": re.compile(b"b")}}, r"headers\['a'\] must be a regular expression for text"),
        ({"cookies": "a=b"}, "cookies must be a mapping"),
        ({"data": b"a=b"}, "data must be a mapping"),
        ({"files": [b"a"]}, "files must be a mapping"),
        ({"params": {"a": object()}}, r"params\['a'\] must be text, a number, .*, not object"),
        ({"params": {"a": CallableObject()}}, r"params\['a'\] must be text, a number, .*, not CallableObject"),
        ({"data": {"a": str}}, r"data\['a'\] must be text, a number, .*, not type"),
        ({"headers": {"a": None}}, r"headers\['a'\] must be text, a number, .*, not None"),
        ({"headers": {"a": ["b"]}}, r"headers\['a'\] must be text, a number, .*, not list"),
        ({"headers": {"a": CallableObject()}}, r"headers\['a'\] must be text, a number, .*, not CallableObject"),
        ({"cookies": {"a": {"b"}}}, r"cookies\['a'\] must be text, a number, .*, not set"),
        ({"files": {"a": 5}}, r"files\['a'\] must be bytes, text, .*, not int"),
        ({"files": {"a": [b"1"]}}, r"files\['a'\] must be bytes, text, .*, not list"),
        ({"files": {"a": ("name",)}}, r"files\['a'\] must be bytes, text, .*, not tuple"),
        ({"files": {"a": ("name", b"", 5.5, 1)}}, r"files\['a'\] must be bytes, text, .*, not tuple"),
        ({"files": {"a": (None, b"")}}, r"files\['a'\] must be text"),
        ({"files": {"a": lambda _: True}}, r"files\['a'\] must be a value, not a function"),
        ({"files": {"a": ("name", None)}}, r"files\['a'\] must be bytes, text"),
        ({"json_body": lambda _: True}, "json_body must be a value, not a function: .*matches=function"),
        ({"json_body": {"a": [1, len]}}, r"json_body\['a'\]\[1\] must be a value, not a function"),
        ({"json_body": b"{}"}, "json_body must be a value of JSON, not bytes"),
        ({"json_body": {1: 2}}, "json_body must have names in text"),
        ({"json_body": object()}, "json_body must be a value of JSON, not object"),
        ({"body": {"a": 1}}, "body must be bytes, text or a regular expression, not dict"),
        ({"body": lambda _: True}, "body must be bytes, text or a regular expression, not function"),
        ({"matches": True}, "matches must be a plain function of a request, not bool"),
        ({"matches": later}, "matches must be a plain function of a request, not an asynchronous one"),
    ],
)
def test_an_argument_of_the_wrong_type_is_an_error_at_once(given: dict[str, Any], message: str) -> None:
    mock = headgate.testing.mock()
    with pytest.raises(TypeError, match=message):
        mock.route(**given)
    method = given.pop("method", "GET")
    if isinstance(method, str):
        with pytest.raises(TypeError, match=message):
            mock.request(method, **given)
    assert () == mock.routes
