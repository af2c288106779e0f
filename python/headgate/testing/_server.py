"""The mock server, which responds in place of the network."""

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Final, Self, Unpack

from headgate import _mocks
from headgate._checks import check, duration, kind_of, seconds_of
from headgate._native import VirtualClock
from headgate._nearest import nearest
from headgate.client._errors import CLASS_OF, RequestError
from headgate.serving._threads import FunctionThreads
from headgate.testing._calls import Call, Calls, MockRequest
from headgate.testing._matchers import Text
from headgate.testing._pieces import Pieces
from headgate.testing._response import Error, GivenResponse, MockFailure, MockResponse, failure_of, response_of
from headgate.testing._route import Computed, Pattern, PatternKeywords, Route
from headgate.testing._serving import Decision, MockServing

_ADVANCE: Final = duration(lambda seconds: seconds >= 0, "0 or more seconds")

MAX_NAMED: Final = 20
"""The bound of requests without a response, and of routes, in a message; and of errors that are kept."""

_CANCELLED: Final = MockFailure("cancelled", "the client has gone")
_NO_RESPONSE: Final = "the mock has no response for this request"
_FOREIGN_NAMES: Final = {
    "url__startswith": "prefix",
    "status_code": "status",
    "return_value": "response",
    "side_effect": "response",
}
"""Names that respx uses for arguments that have another name here."""


class RouteKeywords(PatternKeywords, total=False):
    """The arguments of a pattern and of the response."""

    status: int
    json: Any
    text: str | None
    html: str | None
    content: bytes | Pieces | None
    response: GivenResponse | Computed
    error: Error


_OF_PATTERNS: Final = tuple(PatternKeywords.__annotations__)
_OF_RESPONSES: Final = ("status", "json", "text", "html", "content", "response", "error")


class MockServer:
    """Responds in place of the network, in this process: it makes no DNS lookup and no connection.

    While its `with` block runs, it responds to all requests that headgate makes in this process: those of clients, even
    of clients that were created before, and of `fetch`, `start`, `map_batches` and `fetch_table`. Retries, redirects,
    limits, timeouts and decoding are the real ones. If there are several mocks, the one entered last responds.

    >>> with headgate.testing.MockServer(base_url="https://api.example.com") as server:
    ...     route = server.get("/users/{number}", json={"id": 1})
    ...     print(client.get("https://api.example.com/users/1").json(), server.call_count)
    {'id': 1} 1

    Attributes:
        calls: The newest calls, up to 1,000, with or without a response.
        routes: The routes, in the order in which they are tried.
    """

    __module__ = "headgate.testing"

    def __init__(
        self,
        handler: Computed | None = None,
        *,
        base_url: str = "",
        assert_all_mocked: bool = True,
        assert_all_called: bool = True,
        virtual_clock: bool = False,
    ) -> None:
        """Creates a mock; it responds within its `with` block.

        Args:
            handler: A function that responds to requests that match no route. See `Route.gives`.
            base_url: The URL to which patterns that begin with `/` are relative; without it, they match any host.
            assert_all_mocked: Leaving the block raises an `AssertionError` if a request had no response.
            assert_all_called: Leaving the block raises an `AssertionError` if a route was not called.
            virtual_clock: Waiting takes no real time: when calls wait and nothing can happen but the passing of time,
                the time of all engines in this process jumps ahead. See `elapsed_s`.

        Raises:
            TypeError: `handler` can't be called.
        """
        if handler is not None and not callable(handler):
            raise TypeError(f"handler must be a function of a request, not {kind_of(handler)}; base_url= takes a URL")
        self.calls: Calls = Calls()
        self.routes: tuple[Route, ...] = ()
        self._handler = Route(Pattern(None, None, "", {})).gives(handler) if handler is not None else None
        self._base_url = base_url
        self._asserts_mocked = assert_all_mocked
        self._asserts_called = assert_all_called
        self._lock = threading.Lock()
        self._unmatched: list[str] = []
        self._unmatched_count = 0
        self._raised: list[BaseException] = []
        self._serving: MockServing | None = None
        self._is_virtual = virtual_clock
        self._clock: VirtualClock | None = None
        self._elapsed_s = 0.0

    def route(self, method: str | None = None, url: Text | None = None, **pattern: Unpack[PatternKeywords]) -> Route:
        """Adds a route: it responds with status 200 and an empty body, unless you give it another response.

        The first route that matches responds; a route with the same arguments as an earlier one replaces it.

        >>> server.route("GET", prefix="/users/", params={"page": 2})
        <headgate.testing.Route GET prefix='/users/', params={'page': 2}>

        Args:
            method: The method; `None` matches any.
            url: A whole URL, or a path on any host or below `base_url`; `{name}` in its path matches a part without
                `/`. Without a query, any query matches; with one, a request must have exactly these parameters. Or a
                regular expression that is searched for in the URL.
            **pattern: `scheme`, `host`, `port`, `path`; `prefix`: the beginning of a URL, or of a path; `params`,
                `headers` and `cookies`: some of those of the request; `json_body`; `body`; `data` and `files`: some
                of the fields and of the files of a form; `matches`: a function that returns whether a request matches.
                Texts may be regular expressions, and `unittest.mock.ANY` matches any value.

        Raises:
            TypeError: There is no such pattern, or an argument has the wrong type.
            ValueError: No request can match it.
        """
        return self._add(self._create_route(method, url, pattern))

    def request(self, method: str | None, url: Text | None = None, **route: Unpack[RouteKeywords]) -> Route:
        """Adds a route with its response.

        >>> server.request("OPTIONS", "/users", status=204)
        <headgate.testing.Route OPTIONS /users>

        Args:
            method: As for `route`.
            url: As for `route`.
            **route: The arguments of `route`, and a response: `status` with one of `json`, `text`, `html` and
                `content`; or `response` (see `Route.gives`); or `error` (see `Route.fails`).

        Raises:
            TypeError: There is no such argument, or there are several responses.
            ValueError: An argument is invalid.
        """
        given = _response_in(route)
        # Now `route` has only the arguments of the pattern.
        return self._add(self._create_route(method, url, route).gives(given))

    def get(self, url: Text | None = None, **route: Unpack[RouteKeywords]) -> Route:
        """Adds a route for GET. See `request`.

        >>> server.get("/users/1", json={"id": 1})
        <headgate.testing.Route GET /users/1>
        """
        return self.request("GET", url, **route)

    def head(self, url: Text | None = None, **route: Unpack[RouteKeywords]) -> Route:
        """Adds a route for HEAD. See `request`.

        >>> server.head("/users/1")
        <headgate.testing.Route HEAD /users/1>
        """
        return self.request("HEAD", url, **route)

    def post(self, url: Text | None = None, **route: Unpack[RouteKeywords]) -> Route:
        """Adds a route for POST. See `request`.

        >>> server.post("/users", json_body={"name": "Ann"}, status=201)
        <headgate.testing.Route POST /users json_body={'name': 'Ann'}>
        """
        return self.request("POST", url, **route)

    def put(self, url: Text | None = None, **route: Unpack[RouteKeywords]) -> Route:
        """Adds a route for PUT. See `request`.

        >>> server.put("/users/1", status=204)
        <headgate.testing.Route PUT /users/1>
        """
        return self.request("PUT", url, **route)

    def patch(self, url: Text | None = None, **route: Unpack[RouteKeywords]) -> Route:
        """Adds a route for PATCH. See `request`.

        >>> server.patch("/users/1", headers={"If-Match": "7"})
        <headgate.testing.Route PATCH /users/1 headers={'If-Match': '7'}>
        """
        return self.request("PATCH", url, **route)

    def delete(self, url: Text | None = None, **route: Unpack[RouteKeywords]) -> Route:
        """Adds a route for DELETE. See `request`.

        >>> server.delete("/users/1", error=headgate.ConnectError)
        <headgate.testing.Route DELETE /users/1>
        """
        return self.request("DELETE", url, **route)

    def pass_through(
        self, method: str | None = None, url: Text | None = None, **pattern: Unpack[PatternKeywords]
    ) -> Route:
        """Adds a route whose requests go to the network. See `Route.pass_through`.

        Routes are tried in their order: one that passes everything through comes last.

        >>> with headgate.testing.mock() as server:
        ...     route = server.pass_through(host="127.0.0.1")
        ...     print(client.get("/hello").text)
        Hello, World!

        Args:
            method: As for `route`.
            url: As for `route`.
            **pattern: As for `route`.
        """
        return self.route(method, url, **pattern).pass_through()

    @property
    def call_count(self) -> int:
        """The number of requests."""
        return self.calls.total

    @property
    def elapsed_s(self) -> float:
        """The seconds since the block began, up to its end; with a virtual clock, including the skipped time.

        >>> with headgate.testing.mock(virtual_clock=True) as server:
        ...     slow = server.get("/slow").respond(text="late", delay=240)
        ...     print(client.get("/slow", timeout=300).text, int(server.elapsed_s))
        late 240
        """
        return self._elapsed_s if self._clock is None else self._clock.elapsed_s

    def advance(self, seconds: float | timedelta) -> None:
        """Lets this time pass on the virtual clock at once, for what happens between two calls.

        >>> with headgate.testing.mock(virtual_clock=True) as server:
        ...     server.advance(3600)
        ...     print(int(server.elapsed_s))
        3600

        Args:
            seconds: Seconds, or a `timedelta`; a year at the most.

        Raises:
            RuntimeError: The mock has no virtual clock, or its block has ended.
            TypeError: `seconds` has the wrong type.
            ValueError: `seconds` is negative, or more than a year.
        """
        check("seconds", seconds, _ADVANCE)
        if self._clock is None or not self._is_virtual:
            raise RuntimeError("advance needs a virtual clock: call it in the block of mock(virtual_clock=True)")
        self._clock.advance(seconds_of(seconds))

    def assert_all_mocked(self) -> None:
        """Raises an error if a request had no response.

        >>> with headgate.testing.mock(assert_all_mocked=False) as server:
        ...     outcomes = list(client.fetch_many(["/users/1"]))
        >>> server.assert_all_mocked()
        Traceback (most recent call last):
        AssertionError: the mock had no response for 1 request:
          GET http://127.0.0.1:8080/users/1
        its routes:
          none

        Raises:
            AssertionError: A request had no response, or a function that computes one raised an error.
        """
        with self._lock:
            raised, named, count = list(self._raised), list(self._unmatched), self._unmatched_count
        if raised:
            raise AssertionError(f"a response of the mock could not be computed: {_described(raised[0])}") from raised[
                0
            ]
        if count:
            requests = "\n  ".join(named + [f"and {count - len(named)} more"] * (count > len(named)))
            raise AssertionError(
                f"the mock had no response for {count} request{'s' * (count != 1)}:\n  {requests}\n"
                f"its routes:\n  {self._named_routes(self.routes)}"
            )

    def assert_all_called(self) -> None:
        """Raises an error with the routes that were never called, if there are any.

        >>> route = server.get("/users/1")
        >>> server.assert_all_called()
        Traceback (most recent call last):
        AssertionError: the mock was not asked for:
          GET /users/1 (never called)

        Raises:
            AssertionError: A route was never called.
        """
        uncalled = [route for route in self.routes if not route.called and not route.may_be_unused]
        if uncalled:
            raise AssertionError(f"the mock was not asked for:\n  {self._named_routes(uncalled)}")

    def reset(self) -> None:
        """Removes all calls. Routes stay, and continue with their next response.

        >>> server.reset()
        >>> server.call_count
        0
        """
        with self._lock:
            self._unmatched.clear()
            self._raised.clear()
            self._unmatched_count = 0
        for calls in (self.calls, *(route.calls for route in self.routes)):
            calls.clear()

    def __enter__(self) -> Self:
        """Starts to respond in place of the network.

        Raises:
            RuntimeError: It was started before.
        """
        if self._serving is not None:
            raise RuntimeError("this mock has begun: make another one for a block within its own")
        self._clock = VirtualClock()
        if self._is_virtual:
            self._clock.begin()
        try:
            self._serving = MockServing(self._decide, self._note_error)
            self._serving.start()
        except BaseException:
            self._clock.end()
            raise
        _mocks.begin(self._serving)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stops the mock; requests in flight fail.

        Raises:
            AssertionError: As `assert_all_mocked` and `assert_all_called`, unless the block raised an error itself.
        """
        serving, self._serving = self._serving, None
        if serving is None:
            return
        _mocks.end(serving)
        serving.stop()
        if self._clock is not None:
            self._elapsed_s = self._clock.elapsed_s
            self._clock.end()
            self._clock = None
        if error is None:
            if self._asserts_mocked:
                self.assert_all_mocked()
            if self._asserts_called:
                self.assert_all_called()

    async def __aenter__(self) -> Self:
        """Begins the mock, as `with` does, which coroutines can use, too."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)

    def __repr__(self) -> str:
        return f"<headgate.testing.MockServer of {len(self.routes)} routes, {self.call_count} calls>"

    def _create_route(self, method: str | None, url: Text | None, pattern: PatternKeywords) -> Route:
        for name in pattern:
            if name not in _OF_PATTERNS:
                meant = _FOREIGN_NAMES.get(name) or nearest(name, (*_OF_PATTERNS, *_OF_RESPONSES))
                raise TypeError(f"a route has no {name!r}" + (f": did you mean {meant}?" if meant else ""))
        return Route(Pattern(method, url, self._base_url, pattern))

    def _add(self, route: Route) -> Route:
        with self._lock:
            same = [other for other in self.routes if other.pattern.key == route.pattern.key]
            kept = self.routes if same else (*self.routes, route)
            self.routes = tuple(route if other in same else other for other in kept)
        return route

    async def _decide(self, request: MockRequest, threads: FunctionThreads) -> Decision:
        try:
            for route in self._matching(request):
                given = route.next()
                decision = await self._computed(request, route, given, threads) if callable(given) else given
                if decision is not None:
                    return self._note_call(request, route, decision)
        except Exception as error:  # noqa: BLE001 - raised by a generator of responses, or by a value that is compared
            self.calls.add(Call(request, None))
            return self._note_error(error)
        return self._note_unmatched(request)

    def _note_error(self, error: BaseException) -> MockFailure:
        """Returns the failure for an error of a response; the end of the block raises one that is none of a request."""
        if isinstance(error, RequestError) and error.kind in CLASS_OF:
            return failure_of(error)
        with self._lock:
            if len(self._raised) < MAX_NAMED:
                self._raised.append(error)
        text = f"the response of the mock could not be computed: {_described(error)}"
        return MockFailure("invalid_request", text, is_lasting=True)

    def _matching(self, request: MockRequest) -> Iterator[Route]:
        for route in self.routes:
            params = route.pattern.match(request)
            if params is not None:
                request.path_params = params
                yield route
        if self._handler is not None:
            request.path_params = {}
            yield self._handler

    async def _computed(
        self, request: MockRequest, route: Route, compute: Computed, threads: FunctionThreads
    ) -> Decision | None:
        """Returns the response of a function; `None`: the next route responds."""
        try:
            given: object = await _called(compute, request, threads)
            return None if given is None else response_of(given)
        except asyncio.CancelledError:
            # The client has gone.
            self._note_call(request, route, _CANCELLED)
            raise
        except BaseException as error:  # noqa: BLE001 - also from pytest.fail; `assert_all_mocked` raises it again
            return self._note_error(error)

    def _note_call(self, request: MockRequest, route: Route, decision: Decision) -> Decision:
        call = Call(request, decision if isinstance(decision, MockResponse) else None)
        self.calls.add(call)
        route.calls.add(call)
        return decision

    def _note_unmatched(self, request: MockRequest) -> MockFailure:
        named = f"{request.method} {request.url}"
        with self._lock:
            self._unmatched_count += 1
            if len(self._unmatched) < MAX_NAMED:
                self._unmatched.append(named)
        self.calls.add(Call(request, None))
        routes = self._named_routes(self.routes, "; ")
        return MockFailure("invalid_request", _NO_RESPONSE, is_lasting=True, detail=f"{named}; its routes: {routes}")

    def _named_routes(self, routes: Sequence[Route], between: str = "\n  ") -> str:
        named = [f"{route} ({_times(route.call_count)})" for route in routes[:MAX_NAMED]]
        if len(routes) > MAX_NAMED:
            named.append(f"and {len(routes) - MAX_NAMED} more")
        return between.join(named) or "none"


def mock(
    handler: Computed | None = None,
    *,
    base_url: str = "",
    assert_all_mocked: bool = True,
    assert_all_called: bool = True,
    virtual_clock: bool = False,
) -> MockServer:
    """Creates a mock for a `with` block. See `MockServer`.

    >>> with headgate.testing.mock(lambda request: {"path": request.path}):
    ...     print(client.get("/users/1").json())
    {'path': '/users/1'}

    Args:
        handler: A function that responds to requests that match no route.
        base_url: The URL to which patterns that begin with `/` are relative; without it, they match any host.
        assert_all_mocked: Leaving the block raises an `AssertionError` if a request had no response.
        assert_all_called: Leaving the block raises an `AssertionError` if a route was not called.
        virtual_clock: Waiting takes no real time. See `MockServer`.

    Raises:
        TypeError: `handler` can't be called.
    """
    return MockServer(
        handler,
        base_url=base_url,
        assert_all_mocked=assert_all_mocked,
        assert_all_called=assert_all_called,
        virtual_clock=virtual_clock,
    )


def _response_in(route: RouteKeywords) -> GivenResponse | Computed | MockFailure:
    """Removes the response from the arguments of a route, and returns it."""
    given: dict[str, Any] = {name: route.pop(name) for name in _OF_RESPONSES if name in route}
    if len(given) > 1 and ("response" in given or "error" in given):
        raise TypeError("a route has one response: give a status with a body, or response, or error")
    if "error" in given:
        return failure_of(given["error"])
    return given["response"] if "response" in given else MockResponse(**given)


async def _called(function: Computed, request: MockRequest, threads: FunctionThreads) -> object:
    """Calls a function: a coroutine function in the loop, any other in a thread, where it may block."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004 - of an object
        returned: object = function(request)
    else:
        returned = await threads.run(partial(function, request))
    return await returned if isinstance(returned, Awaitable) else returned


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _times(count: int) -> str:
    return {0: "never called", 1: "called once"}.get(count, f"called {count} times")
