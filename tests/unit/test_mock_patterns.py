"""Which requests a route of a mock answers, and what can be meant as an answer."""

import re
from typing import Any
from unittest.mock import ANY

import pytest

import headgate
from headgate import Headers
from headgate.testing import Answer, Call, Calls, MockRequest
from headgate.testing._answer import MockFailure, answer_of
from headgate.testing._calls import MAX_CALLS, MAX_KEPT_BYTES
from headgate.testing._route import Pattern
from headgate.testing._serving import RequestReader, answer_bytes

SENT = "https://api.example.com/v1/users/7?page=2&page=3&q=a%20b"


def sent(url: str = SENT, method: str = "GET", body: bytes = b"", **headers: str) -> MockRequest:
    return MockRequest(method, url, Headers(headers.items()), body)


def pattern(url: Any = None, *, method: str | None = None, base_url: str = "", **given: Any) -> Pattern:
    return Pattern(method, url, base_url, given)  # type: ignore[arg-type] # as routes give it


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
def test_all_that_a_pattern_says_must_be_so(expected: dict[str, str] | None, given: Pattern) -> None:
    assert expected == given.match(sent())


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
def test_headers_and_bodies_can_be_asked_for(expected: dict[str, str] | None, given: dict[str, Any]) -> None:
    body = '{"a": "ü", "b": [1, null]}'.encode()
    request = sent(method="POST", body=body, **{"X-Trace": "a7"})
    assert expected == pattern(**given).match(request)


@pytest.mark.parametrize(
    ("is_so", "expected", "found"),
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
def test_a_number_is_no_truth_value(is_so: bool, expected: object, found: bytes) -> None:
    assert is_so == (pattern(json_body=expected).match(sent(body=found)) is not None)


def test_a_body_that_is_no_json_is_not_the_one_that_is_asked_for() -> None:
    assert pattern(json_body=None).match(sent(body=b"{")) is None


@pytest.mark.parametrize(
    ("url", "written"),
    [
        ("https://xn--bcher-kva.example/%C3%BC%20b", "https://bücher.example/ü b"),
        ("http://a.example/", "http://a.example"),
    ],
)
def test_urls_may_be_written_as_people_write_them(url: str, written: str) -> None:
    assert pattern(written).match(sent(url)) == {}


def test_what_a_name_stands_for_is_decoded() -> None:
    assert {"name": "ü b"} == pattern("/users/{name}").match(sent("http://a.example/users/%C3%BC%20b"))


def test_a_pattern_is_told_as_it_was_given() -> None:
    told = pattern("/users", method="post", base_url="https://a.example", params={"page": 1}, body=re.compile("x"))
    assert "POST https://a.example/users params={'page': 1}, body=re.compile('x')" == str(told)
    assert "any method" == str(pattern())


@pytest.mark.parametrize(
    ("status", "content", "kind", "given"),
    [
        (200, b"", None, Answer()),
        (503, b"", None, 503),
        (200, b'{"a":1}', "application/json", {"a": 1}),
        (200, b"[1]", "application/json", [1]),
        (201, b"null", "application/json", (201, None)),
        (200, b"text", "text/plain; charset=utf-8", "text"),
        (404, b"bytes", None, (404, b"bytes")),
        (200, b"<p>", "text/html; charset=utf-8", Answer(html="<p>")),
        (200, b"1", "application/hal+json", Answer(json=1, headers={"content-type": "application/hal+json"})),
    ],
)
def test_what_can_be_meant_as_an_answer(status: int, content: bytes, kind: str | None, given: Any) -> None:
    answer = answer_of(given)
    assert isinstance(answer, Answer)
    assert (status, content, kind) == (answer.status, answer.content, answer.headers.get("content-type"))


def test_errors_can_be_meant_by_class_or_with_a_message() -> None:
    assert MockFailure("tls", "the mock says so") == answer_of(headgate.TlsError)
    assert MockFailure("connect", "no route") == answer_of(headgate.ConnectError("no route"))


def test_calls_are_kept_up_to_a_number_and_a_size() -> None:
    calls = Calls()
    for number in range(MAX_CALLS + 3):
        calls.add(Call(sent(f"http://a/{number}"), None))
    assert (MAX_CALLS, MAX_CALLS + 3) == (len(calls), calls.total)
    assert ("/3", f"/{MAX_CALLS + 2}") == (calls[0].request.path, calls[-1].request.path)

    large, last = sent(body=bytes(MAX_KEPT_BYTES)), sent(body=b"1")
    calls.add(Call(large, None))
    assert MAX_CALLS == len(calls)
    calls.add(Call(last, None))
    assert [last] == [call.request for call in calls]


def test_requests_are_read_in_whatever_pieces_they_come() -> None:
    wire = b"POST /a?b HTTP/1.1\r\nX: 1\r\nx: 2\r\ncontent-length: 3\r\n\r\nabcGET / HTTP/1.1\r\nhost: h\r\n\r\n"
    for size in (1, 7, len(wire)):
        reader, read = RequestReader("https://h"), list[MockRequest]()
        for start in range(0, len(wire), size):
            reader.feed(wire[start : start + size])
            while (request := reader.take()) is not None:
                read.append(request)
        assert [("POST", "https://h/a?b", b"abc"), ("GET", "https://h/", b"")] == [
            (request.method, request.url, request.content) for request in read
        ]
        assert ["1", "2"] == read[0].headers.get_list("x")


@pytest.mark.parametrize(
    ("expected", "method", "answer"),
    [
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na", False), "GET", Answer(content=b"a")),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n", False), "HEAD", Answer(content=b"a")),
        ((b"HTTP/1.1 204 No Content\r\n\r\n", False), "GET", Answer(204, content=b"a")),
        (
            (b"HTTP/1.1 799 \r\nConnection: close\r\nContent-Length: 0\r\n\r\n", True),
            "GET",
            Answer(799, headers={"Connection": "close"}),
        ),
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na", True), "GET", Answer(content=b"abc", cut_after=1)),
        (
            (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\na", False),
            "GET",
            Answer(content=b"a", headers={"content-length": "9"}),
        ),
    ],
)
def test_answers_are_framed_as_they_say(expected: tuple[bytes, bool], method: str, answer: Answer) -> None:
    assert expected == answer_bytes(answer, method)
