"""What became of one of many requests."""

from typing import Any

from headgate import _format
from headgate._html import table
from headgate._native import Answer
from headgate._url_user import without_user
from headgate.client._errors import RequestError
from headgate.client._request import Asked, Request
from headgate.client._response import Response, error_of


class Outcome:
    """What became of one of many requests: a response, or an error.

    >>> requests = [headgate.Request("/hello", tag=1), headgate.Request("ftp://host/", tag=2)]
    >>> for outcome in client.fetch_many(requests, ordered=True):
    ...     print(outcome.tag, outcome.request.url, outcome.response, outcome.error)
    1 /hello <Response [200 OK]> None
    2 ftp://host/ None ftp://host/: only URLs of http and https are supported (not ftp)
    """

    __slots__ = ("_answer", "_asked", "_result")

    def __init__(self, asked: Asked, answer: Answer) -> None:
        self._asked = asked
        self._answer = answer
        # Made when it is looked at, once.
        self._result: Response | RequestError | None = None

    @property
    def request(self) -> Request:
        """What was asked for."""
        self._asked = request = Request.of(self._asked)
        return request

    @property
    def tag(self) -> Any:  # noqa: ANN401 - the caller's
        """What the caller knows the request by."""
        return None if isinstance(self._asked, str) else self.request.tag

    @property
    def error(self) -> RequestError | None:
        """Why there is no usable answer, if there is none."""
        result = self._concluded()
        return result if isinstance(result, RequestError) else None

    @property
    def response(self) -> Response | None:
        """The answer, whatever its status; `None`: see `error`."""
        result = self._concluded()
        return result if isinstance(result, Response) else None

    def unwrap(self) -> Response:
        """The response.

        >>> [outcome.unwrap().text for outcome in client.fetch_many(["/hello"])]
        ['Hello, World!']

        Raises:
            RequestError: There is none.
        """
        result = self._concluded()
        if isinstance(result, RequestError):
            raise result
        return result

    def _concluded(self) -> Response | RequestError:
        result = self._result
        if result is None:
            result = error_of(self._asked, self._answer) or Response(self._asked, self._answer)
            self._result = result
        return result

    def __repr__(self) -> str:
        url = _format.printable(without_user(self.request.url))
        return f"<Outcome of {url}: {self.error or self.response!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        if self.error is None:
            return self.unwrap()._repr_html_()
        title = f"{self.request.method} {without_user(self.request.url)}"
        return table(title, [("error", self.error.kind), ("message", str(self.error))])
