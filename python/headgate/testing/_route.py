"""Routes: patterns of requests, and the responses to them."""

import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Self, TypeAlias, TypedDict, Unpack

from headgate._checks import kind_of
from headgate.testing._calls import Calls, MockRequest
from headgate.testing._matchers import MATCHERS, RequestMatcher, Text, joined, of_method, of_prefix, of_url
from headgate.testing._response import (
    Error,
    GivenResponse,
    MockFailure,
    MockResponse,
    PassesThrough,
    ResponseKeywords,
    failure_of,
    response_of,
)


class PatternKeywords(TypedDict, total=False):
    """The arguments of a pattern, which `MockServer.route` describes."""

    scheme: str
    host: Text
    port: int
    path: Text
    prefix: str
    params: Mapping[str, Any]
    headers: Mapping[str, Any]
    cookies: Mapping[str, Any]
    json_body: Any
    body: Text | bytes
    data: Mapping[str, Any]
    files: Mapping[str, Any]
    matches: Callable[[MockRequest], object]


class Pattern:
    """A pattern of requests: all of its conditions must hold."""

    def __init__(self, method: str | None, url: Text | None, base_url: str, given: PatternKeywords) -> None:
        shown_method = method.upper() if isinstance(method, str) else method
        first = {name: value for name, value in (("method", shown_method), ("url", url)) if value is not None}
        self._arguments: dict[str, Any] = {**first, **given, "base_url": base_url}
        self.key: object = _key(self._arguments)
        """Equal for patterns with the same arguments."""
        self._checks: list[RequestMatcher] = []
        if method is not None:
            self._checks.append(of_method(method))
        if url is not None:
            self._checks.extend(of_url(base_url, url))
        elif base_url:
            self._checks.append(of_prefix("", base_url))
        if "prefix" in given:
            self._checks.append(of_prefix(base_url, given["prefix"]))
        self._checks.extend(make(given[name]) for name, make in MATCHERS.items() if name in given)  # type: ignore[literal-required] # they are

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
        shown_url = _shown(url) if isinstance(url, re.Pattern) else joined(base_url, url) if url else base_url
        conditions = [f"{name}={_shown(value)}" for name, value in rest.items()]
        return " ".join(filter(None, [method, shown_url, ", ".join(conditions)]))


def _key(value: object) -> object:
    """Returns a key that is equal for equivalent values: with `==`, `ANY` equals everything, and `True` equals 1."""
    if isinstance(value, Mapping):
        return {name: _key(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_key(one) for one in value]
    return type(value), value


def _shown(value: object) -> str:
    return f"re.compile({value.pattern!r})" if isinstance(value, re.Pattern) else repr(value)


Computed: TypeAlias = Callable[[MockRequest], GivenResponse | Awaitable[GivenResponse | None] | None]
Next: TypeAlias = MockResponse | MockFailure | PassesThrough | Computed | None
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
        may_be_unused: Whether the end of the block raises no error if the route was not called.
    """

    __module__ = "headgate.testing"

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.calls: Calls = Calls()
        self.may_be_unused: bool = False
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

    def pass_through(self) -> Self:
        """Sends each request to the network, and passes on the response or the error.

        The connection has the options of the client, such as `cacert` and `proxy`; retries, redirects and timeouts stay
        those of the client. A request is read whole before. `calls` have no response. The route need not be called.

        >>> with headgate.testing.mock() as server:
        ...     route = server.get("/hello").pass_through()
        ...     print(client.get("/hello").text, route.call_count)
        Hello, World! 1
        """
        passes = PassesThrough()
        self._next = lambda: passes
        self.may_be_unused = True
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
