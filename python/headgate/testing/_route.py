"""Routes: patterns of requests, and the responses to them."""

import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, Self, TypeAlias, TypedDict, Unpack
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from headgate._checks import kind_of
from headgate.testing._calls import Calls, MockRequest
from headgate.testing._response import (
    Error,
    GivenResponse,
    MockFailure,
    MockResponse,
    ResponseKeywords,
    failure_of,
    response_of,
)

Text: TypeAlias = str | re.Pattern[str]
"""A text that must be equal, or a regular expression that must match somewhere in it."""

RequestMatcher: TypeAlias = Callable[[MockRequest], Mapping[str, str] | None]
"""Returns the values of the named groups of a pattern for a request; `None` if the request does not match."""

_MATCHES: Final[Mapping[str, str]] = {}
_PORTS: Final = {"http": 80, "https": 443}
_NAMED: Final = re.compile(r"\{(\w+)\}")
_SAFE: Final = "/%:@!$&'()*+,;=~"


class PatternKeywords(TypedDict, total=False):
    """The arguments of a pattern, which `MockServer.route` describes."""

    scheme: str
    host: Text
    port: int
    path: Text
    prefix: str
    params: Mapping[str, Any]
    headers: Mapping[str, Any]
    json_body: Any
    body: Text | bytes


class Pattern:
    """A pattern of requests: all of its conditions must hold."""

    def __init__(self, method: str | None, url: Text | None, base_url: str, given: PatternKeywords) -> None:
        method = method.upper() if method else None
        first: dict[str, Any] = {name: value for name, value in (("method", method), ("url", url)) if value is not None}
        self._arguments: dict[str, Any] = {**first, **given, "base_url": base_url}
        self.key: object = _key(self._arguments)
        """Equal for patterns with the same arguments."""
        self._checks: list[RequestMatcher] = []
        if method is not None:
            self._checks.append(_equals(lambda request: request.method, method))
        if isinstance(url, re.Pattern):
            self._checks.append(_text_matches(lambda request: request.url, url))
        elif url is not None:
            self._checks.extend(_of_url(_joined(base_url, url)))
        elif base_url:
            self._checks.append(_of_prefix(base_url))
        if "prefix" in given:
            self._checks.append(_of_prefix(_joined(base_url, given["prefix"])))
        self._checks.extend(make(given[name]) for name, make in _MATCHERS.items() if name in given)  # type: ignore[literal-required] # they are

    def match(self, request: MockRequest) -> dict[str, str] | None:
        """Returns the values of the pattern's names in a request; `None` if the request does not match."""
        params: dict[str, str] = {}
        for check in self._checks:
            found = check(request)
            if found is None:
                return None
            params.update(found)
        return params

    def __str__(self) -> str:
        rest = dict(self._arguments)
        method, url, base_url = rest.pop("method", "any method"), rest.pop("url", None), rest.pop("base_url")
        shown_url = _shown(url) if isinstance(url, re.Pattern) else _joined(base_url, url) if url else base_url
        conditions = [f"{name}={_shown(value)}" for name, value in rest.items()]
        return " ".join(filter(None, [method, shown_url, ", ".join(conditions)]))


def _key(value: object) -> object:
    """Returns a key that is equal for equivalent values: with `==`, `ANY` equals everything, and `True` equals 1."""
    if isinstance(value, Mapping):
        return {name: _key(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_key(one) for one in value]
    return type(value), value


def _joined(base_url: str, url: str) -> str:
    return base_url.rstrip("/") + url if base_url and url.startswith("/") else url


def _shown(value: object) -> str:
    return f"re.compile({value.pattern!r})" if isinstance(value, re.Pattern) else repr(value)


def _of_url(url: str) -> Iterable[RequestMatcher]:
    if not isinstance(url, str):
        raise TypeError(f"url must be text or a regular expression, not {kind_of(url)}")
    if not url.startswith(("/", "http://", "https://")):
        raise ValueError(f"url must begin with http://, https:// or /, not {url!r}; prefix= takes the beginning of one")
    parts = urlsplit(url)
    if parts.scheme:
        port = parts.port or _PORTS[parts.scheme]
        authority = parts.scheme, _ascii(parts.hostname or ""), port
        yield _equals(lambda request: (request.scheme, request.host, request.port), authority)
    yield _path(parts.path or "/")
    if parts.query:
        query = sorted(parse_qsl(parts.query, keep_blank_values=True))
        yield _equals(lambda request: sorted(parse_qsl(request.query, keep_blank_values=True)), query)


def _of_prefix(prefix: str) -> RequestMatcher:
    if not prefix.startswith(("/", "http://", "https://")):
        raise ValueError(f"prefix must begin with http://, https:// or /, not {prefix!r}")
    return _starts_with((lambda request: request.path) if prefix[0] == "/" else (lambda request: request.url), prefix)


def _ascii(host: str) -> str:
    """Returns the hostname as it is sent."""
    return host if host.isascii() else host.encode("idna").decode()


def _path(path: Text) -> RequestMatcher:
    if isinstance(path, re.Pattern):
        return _text_matches(lambda request: request.path, path)
    if not path.startswith("/"):
        raise ValueError(f"path must begin with /, not {path!r}")
    if not _NAMED.search(path):
        sent = quote(path, safe=_SAFE)
        return _equals(lambda request: quote(request.path, safe=_SAFE), sent)
    # Every second part is a name.
    parts = [
        f"(?P<{part}>[^/]+)" if number % 2 else re.escape(quote(part, safe=_SAFE))
        for number, part in enumerate(_NAMED.split(path))
    ]
    whole = re.compile("".join(parts))

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = whole.fullmatch(request.path)
        return {name: unquote(value) for name, value in found.groupdict().items()} if found else None

    return check


def _equals(part: Callable[[MockRequest], object], expected: object) -> RequestMatcher:
    return lambda request: _MATCHES if part(request) == expected else None


def _starts_with(part: Callable[[MockRequest], str], expected: str) -> RequestMatcher:
    return lambda request: _MATCHES if part(request).startswith(expected) else None


def _text_matches(part: Callable[[MockRequest], str], expected: Text) -> RequestMatcher:
    if isinstance(expected, str):
        return _equals(part, expected)

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = expected.search(part(request))
        return {name: value for name, value in found.groupdict().items() if value is not None} if found else None

    return check


def _matches_value(expected: object, found: str) -> bool:
    if isinstance(expected, re.Pattern):
        return expected.search(found) is not None
    # `unittest.mock.ANY` equals everything.
    return bool(expected == found) or str(expected) == found


def _has_params(params: Mapping[str, Any]) -> RequestMatcher:
    expected = {name: value if isinstance(value, list | tuple) else [value] for name, value in params.items()}

    def check(request: MockRequest) -> Mapping[str, str] | None:
        given = request.params
        for name, values in expected.items():
            if not all(any(_matches_value(value, found) for found in given.get(name, ())) for value in values):
                return None
        return _MATCHES

    return check


def _has_headers(headers: Mapping[str, Any]) -> RequestMatcher:
    expected = dict(headers)

    def check(request: MockRequest) -> Mapping[str, str] | None:
        found = request.headers
        is_match = all(name in found and _matches_value(value, found[name]) for name, value in expected.items())
        return _MATCHES if is_match else None

    return check


def _has_json(expected: object) -> RequestMatcher:
    def check(request: MockRequest) -> Mapping[str, str] | None:
        try:
            found = request.json()
        except ValueError:
            return None
        return _MATCHES if _is_same_json(expected, found) else None

    return check


def _is_same_json(expected: object, found: object) -> bool:
    """Returns whether the values are equal; `true` and 1, which are equal in Python, are not."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return expected.keys() == found.keys() and all(_is_same_json(expected[name], found[name]) for name in found)
    if isinstance(expected, list) and isinstance(found, list):
        return len(expected) == len(found) and all(map(_is_same_json, expected, found))
    is_bool = isinstance(expected, bool), isinstance(found, bool)
    return bool(expected == found) and (all(is_bool) or not (any(is_bool) and isinstance(expected, int | float)))


def _has_body(expected: Text | bytes) -> RequestMatcher:
    if isinstance(expected, bytes):
        return _equals(lambda request: request.content, expected)
    return _text_matches(lambda request: request.text, expected)


_MATCHERS: Final[Mapping[str, Callable[[Any], RequestMatcher]]] = {
    "scheme": lambda scheme: _equals(lambda request: request.scheme, scheme),
    "host": lambda host: _text_matches(lambda request: request.host, host),
    "port": lambda port: _equals(lambda request: request.port, port),
    "path": _path,
    "params": _has_params,
    "headers": _has_headers,
    "json_body": _has_json,
    "body": _has_body,
}


Computed: TypeAlias = Callable[[MockRequest], GivenResponse | Awaitable[GivenResponse | None] | None]
Next: TypeAlias = MockResponse | MockFailure | Computed | None
"""The response to the next request, or a function that returns it; `None` if there are no more."""


class Route:
    """The requests of one pattern and the responses to them, from `MockServer.route`.

    >>> with headgate.testing.mock() as server:
    ...     route = server.get("/flaky").respond_in_turn([503, (200, {"ok": True})])
    ...     print(client.get("/flaky").status_code, client.get("/flaky").json())
    503 {'ok': True}
    >>> route.called, route.call_count
    (True, 2)

    Attributes:
        calls: The newest calls of the route, up to 1,000.
    """

    __module__ = "headgate.testing"

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.calls: Calls = Calls()
        self._lock = threading.Lock()
        self._next: Callable[[], Next] = MockResponse

    @property
    def called(self) -> bool:
        """Whether the route was called."""
        return self.calls.total > 0

    @property
    def call_count(self) -> int:
        """The number of calls; each attempt and each redirect counts."""
        return self.calls.total

    def respond(self, status: int = 200, **response: Unpack[ResponseKeywords]) -> Self:
        """Responds to each request with these arguments of `MockResponse`.

        >>> server.route("GET", "/users/1").respond(json={"id": 1}, headers={"ETag": "7"}, delay=0.1)
        <headgate.testing.Route GET /users/1>
        """
        return self.gives(MockResponse(status, **response))

    def gives(self, response: GivenResponse | Computed | MockFailure) -> Self:
        """Responds to each request with this response, or with what this function returns for it.

        >>> with headgate.testing.mock() as server:
        ...     route = server.route("GET", "/users/{name}").gives(lambda request: request.path_params["name"])
        ...     print(client.get("/users/ann").text)
        ann

        Args:
            response: A `MockResponse`, a status, a body, `(status, body)`, an error, or a function that returns one of
                these. It is called with the `MockRequest`: a coroutine function in the event loop of the mock, which
                it must not block; any other in a separate thread, up to 64 at once. If it returns `None`, the next
                route that matches responds.

        Raises:
            TypeError: `response` is none of these.
        """
        given = _checked(response)
        self._next = lambda: given
        return self

    def respond_in_turn(self, responses: Iterable[GivenResponse | Computed]) -> Self:
        """Responds to each request with the next one of these: `[503, (200, {"ok": True})]`.

        After the last one, requests have no response. An iterator may be infinite; it is read in the only thread of the
        mock as it is needed, so it must not block.

        Raises:
            TypeError: `responses` is not an iterable.
        """
        if isinstance(responses, str | bytes) or not isinstance(responses, Iterable):
            raise TypeError(f"responses must be a list of responses, not {kind_of(responses)}")
        given = [_checked(response) for response in responses] if isinstance(responses, list | tuple) else responses
        remaining = iter(given)

        def next_response() -> Next:
            with self._lock:
                response = next(remaining, None)
            return None if response is None else _checked(response)

        self._next = next_response
        return self

    def fails(self, error: Error) -> Self:
        """Makes each request fail: with an error such as `headgate.ConnectTimeout`, its class, or its error kind.

        >>> with headgate.testing.mock() as server:
        ...     route = server.route("GET", "/down").fails(headgate.ConnectError)
        ...     print([outcome.error.kind for outcome in client.fetch_many(["/down"])])
        ['connect']

        Raises:
            TypeError: `error` isn't an error of a request.
            ValueError: There is no such error kind.
        """
        failure = failure_of(error)
        self._next = lambda: failure
        return self

    def next(self) -> Next:
        """Returns the response to the next request, or a function that returns it, or `None`."""
        return self._next()

    def __repr__(self) -> str:
        return f"<headgate.testing.Route {self}>"

    def __str__(self) -> str:
        return str(self.pattern)


def _checked(response: object) -> MockResponse | MockFailure | Computed:
    if isinstance(response, MockFailure):
        return response
    if not callable(response) or isinstance(response, type):
        return response_of(response)
    return response  # pyright: ignore[reportReturnType] # its return value is checked later
