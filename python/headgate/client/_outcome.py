"""The outcome of one of many requests."""

from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeAlias

from headgate import _format
from headgate._facts import table
from headgate._native import NativeOutcome
from headgate._url_user import without_user
from headgate.client._errors import RequestError
from headgate.client._request import Request, RequestLike
from headgate.client._response import Response, error_of
from headgate.client._sent_request import tag_of
from headgate.client._tag import Tag_co


class AnyOutcome(Generic[Tag_co]):
    """The outcome of one of many requests: `Succeeded` with a response, or `Failed` with an error.

    Type checkers know that there is a `response` where `outcome.error is None`, and the other way around.

    >>> requests = [headgate.Request("/hello", tag=1), headgate.Request("ftp://host/", tag=2)]
    >>> for outcome in client.fetch_many(requests, ordered=True):
    ...     print(outcome.tag, outcome.request.url, outcome.response, outcome.error)
    1 /hello <Response [200 OK]> None
    2 ftp://host/ None ftp://host/: only URLs of http and https are supported (not ftp)
    >>> outcome.index, outcome.attempts, outcome.elapsed_s < 60
    (1, 0, True)

    Attributes:
        index: The position of the request, from 0: the `row` of its result in `to_arrow_batches`.
        response: The response, whatever its status; `None` if there is an `error`.
        error: The error of a failed request, or `None`.
    """

    __module__ = "headgate"
    __qualname__ = "Outcome"

    __slots__ = ("_native", "_request", "_result", "index")

    def __init__(self, request: RequestLike, native: NativeOutcome, index: int) -> None:
        self._request = request
        self._native = native
        self._result: Response | RequestError | None = None
        self.index: int = index

    @property
    def request(self) -> Request[Tag_co]:
        """The request, as the caller gave it."""
        self._request = request = Request.of(self._request)
        return request

    @property
    def tag(self) -> Tag_co:
        """The `tag` of the request."""
        tag: Tag_co = tag_of(self._request)
        return tag

    @property
    def attempts(self) -> int:
        """The number of attempts; 0 if nothing was sent."""
        return self._native.attempts

    @property
    def elapsed_s(self) -> float:
        """The time of the last attempt, in seconds."""
        return self._native.elapsed_us / 1e6

    def _name(self) -> str:
        """Returns the URL of the request, or its index if it has none."""
        return _format.printable(without_user(self.request.url)) or f"index {self.index}"


class Succeeded(AnyOutcome[Tag_co]):
    """The outcome of a request that got a response, whatever its status.

    >>> outcome = next(client.fetch_many(["/status/404"]))
    >>> isinstance(outcome, headgate.Succeeded), outcome.response
    (True, <Response [404 Not Found]>)

    Attributes:
        response: The response.
        error: `None`.
    """

    __module__ = "headgate"

    __slots__ = ()

    # Type checkers tell the two classes apart by plain attributes only.
    if TYPE_CHECKING:
        response: Response
        error: None
    else:
        error = None

        @property
        def response(self) -> Response:
            if self._result is None:  # created on first use
                self._result = Response(self._request, self._native)
            return self._result

    def unwrap(self) -> Response:
        """Returns the response.

        >>> [outcome.unwrap().text for outcome in client.fetch_many(["/hello"])]
        ['Hello, World!']
        """
        return self.response

    def __repr__(self) -> str:
        return f"<Outcome of {self._name()}: {self.response!r}>"

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return self.response._repr_html_()


class Failed(AnyOutcome[Tag_co]):
    """The outcome of a request that got no response.

    >>> outcome = next(client.fetch_many(["ftp://host/"]))
    >>> isinstance(outcome, headgate.Failed), outcome.error.kind
    (True, 'invalid_request')

    Attributes:
        response: `None`.
        error: The error.
    """

    __module__ = "headgate"

    __slots__ = ()

    # As above.
    if TYPE_CHECKING:
        response: None
        error: RequestError
    else:
        response = None

        @property
        def error(self) -> RequestError:
            if self._result is None:  # as above
                self._result = error_of(self._request, self._native, self.index)
            return self._result

    def unwrap(self) -> NoReturn:
        """Raises the error.

        >>> next(client.fetch_many(["ftp://host/"])).unwrap()
        Traceback (most recent call last):
        headgate.InvalidRequest: ftp://host/: only URLs of http and https are supported (not ftp)

        Raises:
            RequestError: The request failed.
        """
        raise self.error

    def __repr__(self) -> str:
        return f"<Outcome of {self._name()}: {self.error!r}>"

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        title = f"{self.request.method} {self._name()}"
        return table(title, [("error", self.error.kind), ("message", str(self.error))])


if TYPE_CHECKING:
    Outcome: TypeAlias = Succeeded[Tag_co] | Failed[Tag_co]
    """The outcome of one of many requests: a response, or an error."""
else:
    Outcome = AnyOutcome


def failed_with(outcome: "Outcome[Any]", error: RequestError) -> Failed[Any]:
    """Returns the outcome with an error that a hook has raised in place of its response."""
    failed: Failed[Any] = Failed(outcome._request, outcome._native, outcome.index)  # noqa: SLF001 - of this module
    failed._result = error  # noqa: SLF001 - as above
    return failed
