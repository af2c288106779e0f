"""An answer, as its caller sees it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any, Final, Self

from headgate import _format
from headgate._errors import HeadgateError
from headgate._facts import Fact, table
from headgate._native import Answer
from headgate._url_user import without_user
from headgate.client._errors import CLASS_OF, RequestError
from headgate.client._headers import Headers
from headgate.client._request import Asked, Request
from headgate.client._text import marked_encoding, told_encoding


@dataclass(frozen=True, slots=True, repr=False)
class Redirect:
    """A redirect that was followed.

    >>> client.get("/redirect/1").history
    [<Redirect [302] of http://127.0.0.1:8080/redirect/1 to http://127.0.0.1:8080/redirect/0>]

    Attributes:
        status_code: Its status.
        url: What was asked for.
        location: Where it led.
    """

    status_code: int
    url: str
    location: str

    def __repr__(self) -> str:
        url, location = (_format.printable(without_user(url)) for url in (self.url, self.location))
        return f"<Redirect [{self.status_code}] of {url} to {location}>"


_PICKLED: Final = (
    *("status", "headers", "body_truncated", "url", "final_url", "redirects", "elapsed_us", "attempts"),
    *("http_version", "remote_addr", "error"),
)
"""What a pickled response has of the engine's answer, beside the body."""


class Response:
    """An answer. What is not looked at costs nothing. It can be pickled.

    >>> response = client.get("/redirect/1")
    >>> response.status_code, response.reason_phrase, response.http_version, response.url
    (200, 'OK', 'HTTP/1.1', 'http://127.0.0.1:8080/redirect/0')
    >>> response.headers["content-type"], response.encoding, response.content, response.text
    ('text/plain', 'utf-8', b'Hello, World!', 'Hello, World!')
    >>> response.request
    Request('/redirect/1')
    >>> response.attempts, len(response.history), response.elapsed.total_seconds() < 60
    (1, 1, True)
    >>> response.remote_addr, response.is_truncated
    ('127.0.0.1:8080', False)
    >>> response.is_success, response.is_redirect, response.is_informational
    (True, False, False)
    >>> response.is_error, response.is_client_error, response.is_server_error
    (False, False, False)
    """

    def __init__(self, asked: Asked, answer: Answer | SimpleNamespace) -> None:
        self._asked = asked
        self._answer = answer

    def __reduce__(self) -> tuple[object, ...]:
        facts = {name: getattr(self._answer, name) for name in _PICKLED}
        answer = SimpleNamespace(**facts, body=self.content, body_len=len(self.content))
        return Response, (self.request, answer)

    @property
    def request(self) -> Request:
        """What was asked for."""
        self._asked = request = Request.of(self._asked)
        return request

    @property
    def status_code(self) -> int:
        """Its status."""
        return self._answer.status or 0

    @property
    def reason_phrase(self) -> str:
        """What the status means, in words."""
        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""

    @cached_property
    def headers(self) -> Headers:
        """Its headers, by their names in whatever case."""
        return Headers(self._answer.headers)

    @property
    def content(self) -> bytes:
        """Its body, with its content codings undone."""
        return self._answer.body

    @property
    def is_truncated(self) -> bool:
        """Whether the body is the beginning of a longer one (`truncate_body`)."""
        return self._answer.body_truncated

    @cached_property
    def encoding(self) -> str:
        """How its text is encoded: as its content-type says, or a byte order mark, or else UTF-8."""
        return told_encoding(self.headers) or marked_encoding(self.content)

    @cached_property
    def text(self) -> str:
        """Its body as text; what can't be decoded becomes U+FFFD."""
        text = self.content.decode(self.encoding, errors="replace")
        return text.removeprefix("\ufeff")

    def json(self, **options: Any) -> Any:  # noqa: ANN401 - whatever is in it
        """What its body says in JSON.

        >>> client.get("/echo").json()["method"]
        'GET'

        Raises:
            ValueError: It is no JSON.
        """
        return json.loads(self.content, **options)

    @cached_property
    def url(self) -> str:
        """Where it came from: what was asked for, or where redirects led."""
        return self._answer.final_url or ""

    @cached_property
    def history(self) -> list[Redirect]:
        """The redirects that were followed."""
        url, history = self._answer.url or "", []
        for status, location in self._answer.redirects:
            history.append(Redirect(status, url, location))
            url = location
        return history

    @property
    def elapsed(self) -> timedelta:
        """How long the last attempt took, redirects included."""
        return timedelta(microseconds=self._answer.elapsed_us)

    @property
    def attempts(self) -> int:
        """How often it was asked for, this one included."""
        return self._answer.attempts

    @property
    def http_version(self) -> str:
        """As `HTTP/1.1`."""
        return self._answer.http_version or ""

    @property
    def remote_addr(self) -> str | None:
        """Where the connection led, with its port."""
        return self._answer.remote_addr

    @property
    def is_informational(self) -> bool:
        """Whether its status is 1xx."""
        return self.status_code // 100 == 1

    @property
    def is_success(self) -> bool:
        """Whether its status is 2xx."""
        return self.status_code // 100 == 2  # noqa: PLR2004 - a class of statuses

    @property
    def is_redirect(self) -> bool:
        """Whether its status is 3xx."""
        return self.status_code // 100 == 3  # noqa: PLR2004 - as above

    @property
    def is_client_error(self) -> bool:
        """Whether its status is 4xx."""
        return self.status_code // 100 == 4  # noqa: PLR2004 - as above

    @property
    def is_server_error(self) -> bool:
        """Whether its status is 5xx."""
        return self.status_code // 100 == 5  # noqa: PLR2004 - as above

    @property
    def is_error(self) -> bool:
        """Whether its status is 4xx or 5xx."""
        return self.is_client_error or self.is_server_error

    def raise_for_status(self) -> Self:
        """Returns itself if it is a success.

        >>> client.get("/hello").raise_for_status().text
        'Hello, World!'

        Raises:
            StatusError: It is none.
        """
        if self.is_success:
            return self
        status = f"{self.status_code} {self.reason_phrase}".rstrip()
        raise StatusError(_format.printable(f"{status}: {without_user(self.url)}"), self)

    def __repr__(self) -> str:
        return f"<Response [{self.status_code}{' ' * bool(self.reason_phrase)}{self.reason_phrase}]>"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return table(f"{self.request.method} {without_user(self.url)}", self._facts())

    def _head_facts(self) -> Iterator[Fact]:
        yield "status", f"{self.status_code} {self.reason_phrase}".rstrip()
        yield "type", self.headers.get("content-type", "")

    def _facts(self) -> Iterator[Fact]:
        yield from self._head_facts()
        yield "body", _format.size(self._answer.body_len)
        yield "took", f"{self._answer.elapsed_us / 1000:.1f} ms"
        for hop in self.history:
            yield f"{hop.status_code} to", hop.location


class StatusError(HeadgateError, RuntimeError):
    """The status is not 2xx.

    >>> try:
    ...     client.get("/status/404").raise_for_status()
    ... except headgate.StatusError as error:
    ...     print(error, error.response.is_client_error)
    404 Not Found: http://127.0.0.1:8080/status/404 True

    Attributes:
        response: The answer.
        url: Where it came from.
        attempts: How often it was tried.
        elapsed_s: How long the last attempt took.
    """

    def __init__(self, message: str, response: Response) -> None:
        super().__init__(message)
        self.response = response
        self.url: str = response.url
        self.attempts: int = response.attempts
        self.elapsed_s: float = response.elapsed.total_seconds()

    def __reduce__(self) -> tuple[object, ...]:
        return StatusError, (str(self), self.response)


def error_of(asked: Asked, answer: Answer) -> RequestError | None:
    """Why there is no usable answer, if there is none."""
    told = answer.error
    if told is None:
        return None
    url = answer.final_url or Request.of(asked).url
    return error_from(told, url=url, attempts=answer.attempts, elapsed_s=answer.elapsed_us / 1e6)


def error_from(told: tuple[str, str, str | None], *, url: str, attempts: int, elapsed_s: float) -> RequestError:
    """What the engine tells of an error, as it is raised."""
    kind, message, detail = told
    text = _format.printable(f"{without_user(url)}: {message}" + (f" ({detail})" if detail else ""))
    return CLASS_OF.get(kind, RequestError)(text, url=url, attempts=attempts, elapsed_s=elapsed_s)


def response_of(request: Request, answer: Answer) -> Response:
    """The answer.

    Raises:
        RequestError: There is no usable one.
    """
    error = error_of(request, answer)
    if error is not None:
        raise error
    return Response(request, answer)


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
