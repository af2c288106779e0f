"""The response to a request, and the outcome of one of many requests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from headgate import _format
from headgate._facts import Fact, table
from headgate._foreign import no_attribute
from headgate._native import NativeOutcome
from headgate._url_user import without_user
from headgate.client._errors import CLASS_OF, RequestError
from headgate.client._headers import Headers
from headgate.client._prepared_request import PreparedRequest
from headgate.client._request import Request, RequestLike
from headgate.client._sent_request import sent_request, tag_of
from headgate.client._text import bom_encoding, declared_encoding
from headgate.serving._asgi_app import EXCEPTION

if TYPE_CHECKING:
    from headgate.client._cookies import Cookies


@dataclass(frozen=True, slots=True, repr=False)
class Redirect:
    """A redirect that was followed.

    >>> client.get("/redirect/1").history
    [<Redirect [302] of http://127.0.0.1:8080/redirect/1 to http://127.0.0.1:8080/redirect/0>]

    Attributes:
        status_code: The status of the redirect.
        url: The URL that was requested.
        location: The URL to which it led.
    """

    __module__ = "headgate"

    status_code: int
    url: str
    location: str

    def __repr__(self) -> str:
        url, location = (_format.printable(without_user(url)) for url in (self.url, self.location))
        return f"<Redirect [{self.status_code}] of {url} to {location}>"


_PICKLED: Final = (
    *("status", "headers", "body_truncated", "url", "final_url", "redirects", "elapsed_us", "attempts"),
    *("http_version", "remote_addr", "sent_request", "error"),
)
"""The attributes of the engine's response that a pickled response keeps, in addition to the body."""


class Response:
    """A response to a request. Attributes that are not read cost nothing. It can be pickled.

    >>> response = client.get("/redirect/1")
    >>> response.status_code, response.reason_phrase, response.http_version, response.url
    (200, 'OK', 'HTTP/1.1', 'http://127.0.0.1:8080/redirect/0')
    >>> response.headers["content-type"], response.encoding, response.content, response.text
    ('text/plain', 'utf-8', b'Hello, World!', 'Hello, World!')
    >>> client.get("/cookies/set?a=1", redirects="none").cookies["a"]
    '1'
    >>> response.request
    <PreparedRequest [GET] http://127.0.0.1:8080/redirect/0>
    >>> response.attempts, len(response.history), response.elapsed.total_seconds() < 60
    (1, 1, True)
    >>> response.remote_addr, response.is_truncated
    ('127.0.0.1:8080', False)
    >>> response.is_success, response.is_redirect, response.is_informational
    (True, False, False)
    >>> response.is_error, response.is_client_error, response.is_server_error
    (False, False, False)
    """

    __module__ = "headgate"

    _encoding: str | None = None
    """The encoding that was set."""

    def __init__(self, request: RequestLike, native: NativeOutcome | SimpleNamespace) -> None:
        self._request = request
        self._native = native

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of any attribute
            if hasattr(type(self), name):
                # A property has raised this error.
                return object.__getattribute__(self, name)
            raise no_attribute(self, name)

    def __reduce__(self) -> tuple[object, ...]:
        attributes = {name: getattr(self._native, name) for name in _PICKLED}
        native = SimpleNamespace(**attributes, body=self.content, body_len=len(self.content))
        return Response, ({"tag": tag_of(self._request)}, native)

    @cached_property
    def request(self) -> PreparedRequest:
        """The request as it was sent; the last one, if redirects were followed."""
        sent = sent_request(self._native, self._request)
        assert sent is not None, "a request that has a response could be made"  # noqa: S101 - for type checkers
        return sent

    @property
    def status_code(self) -> int:
        """The status."""
        return self._native.status or 0

    @property
    def reason_phrase(self) -> str:
        """The standard phrase of the status."""
        from http import HTTPStatus  # noqa: PLC0415 - most programs don't read it

        try:
            return HTTPStatus(self.status_code).phrase
        except ValueError:
            return ""

    @cached_property
    def headers(self) -> Headers:
        """The headers, by their case-insensitive names."""
        return Headers(self._native.headers)

    @cached_property
    def cookies(self) -> "Cookies":
        """The cookies that this response sets, without those of redirects that led to it."""
        from headgate.client._cookies import of_response  # noqa: PLC0415 - most programs don't read it

        return of_response(self.url, self.headers.get_list("set-cookie"))

    @property
    def content(self) -> bytes:
        """The body, after its content encodings were decoded."""
        return self._native.body

    @property
    def is_truncated(self) -> bool:
        """Whether the body is the beginning of a longer one (`truncate_body`)."""
        return self._native.body_truncated

    @property
    def encoding(self) -> str:
        """The encoding of the text, from the content-type, or from a byte order mark, or else UTF-8. It can be set."""
        return self._encoding or self.charset_encoding or self._encoding_by_mark()

    @encoding.setter
    def encoding(self, encoding: str) -> None:
        self._encoding = encoding
        # The text that was read before has another encoding.
        vars(self).pop("text", None)

    def _encoding_by_mark(self) -> str:
        return bom_encoding(self.content)

    @cached_property
    def charset_encoding(self) -> str | None:
        """The encoding that the content-type declares; `None` if it declares none, or an unknown one.

        >>> response = client.get("/hello")
        >>> response.charset_encoding, response.encoding
        (None, 'utf-8')
        """
        return declared_encoding(self.headers)

    @cached_property
    def text(self) -> str:
        """The body as text; bytes that can't be decoded become U+FFFD."""
        text = self.content.decode(self.encoding, errors="replace")
        return text.removeprefix("\ufeff")

    def json(self, **options: Any) -> Any:  # noqa: ANN401 - whatever is in it
        """Returns the value of a body in JSON.

        >>> client.get("/echo").json()["method"]
        'GET'

        Raises:
            ValueError: The body is not JSON.
        """
        import json  # noqa: PLC0415 - not each response is JSON

        return json.loads(self.content, **options)

    @cached_property
    def url(self) -> str:
        """The URL of the response: that of the request, or that to which redirects led."""
        return self._native.final_url or ""

    @cached_property
    def history(self) -> list[Redirect]:
        """The redirects that were followed."""
        url, history = self._native.url or "", []
        for status, location in self._native.redirects:
            history.append(Redirect(status, url, location))
            url = location
        return history

    @cached_property
    def links(self) -> dict[str, dict[str, str]]:
        """The links of the `Link` headers by their relation types, each with its absolute `url` and its parameters.

        >>> response = client.get("/response-headers", params={"Link": '</page/2>; rel="next"'})
        >>> response.links["next"]["url"]
        'http://127.0.0.1:8080/page/2'
        """
        values = self.headers.get_list("link")
        if not values:
            return {}
        from headgate.client._links import links_of  # noqa: PLC0415 - most responses have none

        return links_of(values, self.url)

    @property
    def elapsed(self) -> timedelta:
        """The time of the last attempt, including redirects."""
        return timedelta(microseconds=self._native.elapsed_us)

    @property
    def attempts(self) -> int:
        """The number of attempts, including the one with this response."""
        return self._native.attempts

    @property
    def http_version(self) -> str:
        """The version of HTTP, such as `HTTP/1.1`."""
        return self._native.http_version or ""

    @property
    def remote_addr(self) -> str | None:
        """The address and port of the connection."""
        return self._native.remote_addr

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
        """Returns the response itself if its status is 2xx.

        >>> client.get("/hello").raise_for_status().text
        'Hello, World!'

        Raises:
            StatusError: The status is not 2xx.
        """
        if self.is_success:
            return self
        status = f"{self.status_code} {self.reason_phrase}".rstrip()
        raise StatusError(_format.printable(f"{status}: {without_user(self.url)}"), self)

    def __repr__(self) -> str:
        return f"<Response [{self.status_code}{' ' * bool(self.reason_phrase)}{self.reason_phrase}]>"

    def _repr_html_(self) -> str:
        """Returns the table that a notebook shows."""
        return table(f"{self.request.method} {without_user(self.url)}", self._facts())

    def _first_facts(self) -> Iterator[Fact]:
        yield "status", f"{self.status_code} {self.reason_phrase}".rstrip()
        yield "type", self.headers.get("content-type", "")

    def _facts(self) -> Iterator[Fact]:
        yield from self._first_facts()
        yield "body", _format.size(self._native.body_len)
        yield "took", f"{self._native.elapsed_us / 1000:.1f} ms"
        for hop in self.history:
            yield f"{hop.status_code} to", hop.location


class StatusError(RequestError, RuntimeError):
    """The status is not 2xx. Only `raise_for_status` raises it.

    >>> try:
    ...     client.get("/status/404").raise_for_status()
    ... except headgate.StatusError as error:
    ...     print(error, error.kind, error.response.is_client_error)
    404 Not Found: http://127.0.0.1:8080/status/404 status:404 True

    Attributes:
        response: The response.
    """

    def __init__(self, message: str, response: Response) -> None:
        elapsed_s = response.elapsed.total_seconds()
        super().__init__(
            message,
            url=response.url,
            attempts=response.attempts,
            elapsed_s=elapsed_s,
            request=lambda: response.request,
        )
        self.kind: str = f"status:{response.status_code}"
        self.response = response

    def __reduce__(self) -> tuple[object, ...]:
        return StatusError, (str(self), self.response)


def error_of(request: RequestLike, response: NativeOutcome, index: int | None = None) -> RequestError | None:
    """Returns the error of a failed request, or `None`. The index of one of many requests replaces an unknown URL."""
    if response.error is None:
        return None
    facts = ErrorFacts(
        response.final_url or Request.of(request).url,
        response.attempts,
        response.elapsed_us / 1e6,
        partial(sent_request, response, request),
    )
    return error_from(response.error, facts, index)


_ADVICE: Final = {"body_too_large": "raise max_body_size, of the client or of the call"}


class ErrorFacts(NamedTuple):
    """The attributes of an error."""

    url: str
    attempts: int
    elapsed_s: float
    request: Callable[[], PreparedRequest | None]


def error_from(error: tuple[str, str, str | None], facts: ErrorFacts, index: int | None = None) -> RequestError:
    """Returns the exception for an error of the engine."""
    kind, message, detail = error
    url, attempts = facts.url, facts.attempts
    place = "" if url or index is None else f"index {index}"
    tries = f"{attempts} attempts" if attempts > 1 else ""
    if detail is not None and detail.startswith(EXCEPTION):
        detail = None  # it identifies the exception, which is raised in its place, or is its cause
    details = "; ".join(filter(None, (detail, tries, _ADVICE.get(kind, ""), place)))
    text = _format.printable((f"{without_user(url)}: " if url else "") + message + (f" ({details})" if details else ""))
    return CLASS_OF.get(kind, RequestError)(text, **facts._asdict())


def response_of(request: Request, native: NativeOutcome) -> Response:
    """Returns the response.

    Raises:
        RequestError: The request failed.
    """
    error = error_of(request, native)
    if error is not None:
        raise error
    return Response(request, native)
