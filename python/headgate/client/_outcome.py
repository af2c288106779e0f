"""What became of one of many requests."""

from functools import cached_property
from typing import Any

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

    def __init__(self, asked: Asked, answer: Answer) -> None:
        self._asked = asked
        self._answer = answer

    @cached_property
    def request(self) -> Request:
        """What was asked for."""
        return Request.of(self._asked)

    @property
    def tag(self) -> Any:  # noqa: ANN401 - the caller's
        """What the caller knows the request by."""
        return None if isinstance(self._asked, str) else self.request.tag

    @cached_property
    def error(self) -> RequestError | None:
        """Why there is no usable answer, if there is none."""
        return error_of(self.request, self._answer)

    @cached_property
    def response(self) -> Response | None:
        """The answer, whatever its status; `None`: see `error`."""
        return None if self._answer.error is not None else Response(self.request, self._answer)

    def unwrap(self) -> Response:
        """The response.

        >>> [outcome.unwrap().text for outcome in client.fetch_many(["/hello"])]
        ['Hello, World!']

        Raises:
            RequestError: There is none.
        """
        if self.response is not None:
            return self.response
        raise self.error or RequestError("there is no answer", url=self.request.url)

    def __repr__(self) -> str:
        return f"<Outcome of {without_user(self.request.url)}: {self.error or self.response!r}>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        if self.error is None:
            return self.unwrap()._repr_html_()
        title = f"{self.request.method} {without_user(self.request.url)}"
        return table(title, [("error", self.error.kind), ("message", str(self.error))])
