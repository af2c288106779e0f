"""The responses and errors of a mock."""

import json as json_
from collections.abc import AsyncIterable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final, TypeAlias, TypedDict

from headgate._checks import check, duration, kind_of, seconds_of
from headgate._nearest import nearest
from headgate.client._errors import CLASS_OF, RequestError
from headgate.client._headers import Headers
from headgate.client._pairs import items_of
from headgate.testing._pieces import Pieces, is_one_shot

NOTHING: Final = object()
"""Marks a JSON body that was not given, because `None` is a JSON body."""

_DELAY: Final = duration(lambda seconds: seconds >= 0, "0 or more seconds")

ResponseHeaders: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Error: TypeAlias = str | RequestError | type[RequestError]
"""An error of a request: an exception, its class, or its error kind."""


class ResponseKeywords(TypedDict, total=False):
    """The arguments of a response, which `MockResponse` describes."""

    json: Any
    text: str | None
    html: str | None
    content: bytes | Pieces | None
    headers: ResponseHeaders
    delay: float | timedelta
    pause: float | timedelta
    cut_after: int | None


class MockResponse:
    """A response of a mock.

    >>> response = headgate.testing.MockResponse(201, json={"id": 1}, headers={"Location": "/users/1"})
    >>> response.status, response.phrase, response.content, response.json()
    (201, 'Created', b'{"id":1}', {'id': 1})

    Attributes:
        status: The status.
        headers: The headers, without those that frame the body.
        content: The body; empty if it comes in pieces.
        pieces: What yields the pieces of the body; `None`: it is sent at once.
        delay: Seconds until the response is sent.
        pause: Seconds between two pieces.
        cut_after: Bytes of the body after which the connection is closed; `None`: the body is sent completely.
    """

    __module__ = "headgate.testing"

    def __init__(  # noqa: PLR0913 - a response has that many attributes
        self,
        status: int = 200,
        *,
        json: Any = NOTHING,  # noqa: ANN401 - whatever can be JSON
        text: str | None = None,
        html: str | None = None,
        content: bytes | Pieces | None = None,
        headers: ResponseHeaders = (),
        delay: float | timedelta = 0.0,
        pause: float | timedelta = 0.0,
        cut_after: int | None = None,
    ) -> None:
        """Creates a response.

        Args:
            status: The status.
            json: The body, as JSON.
            text: The body, as plain text in UTF-8.
            html: The body, as HTML in UTF-8.
            content: The body, as bytes; or an iterable or async iterable of bytes, each of which is sent as it comes. A
                list can serve any number of requests, an iterator one; it is closed if the client goes away.
            headers: Headers; a content-type here replaces that of the body.
            delay: Seconds, or a `timedelta`, to wait before the response is sent: timeouts are real.
            pause: Seconds, or a `timedelta`, between two pieces of `content`.
            cut_after: Close the connection after this many bytes of the body.

        Raises:
            TypeError: There is more than one body, or an argument has the wrong type.
            ValueError: The status, a header or a number is invalid.
        """
        bodies = {"json": json is not NOTHING, "text": text is not None, "html": html is not None}
        bodies["content"] = content is not None
        given = [name for name, is_given in bodies.items() if is_given]
        if len(given) > 1:
            raise TypeError(f"a response has one body: give {given[0]} or {given[1]}")
        _check_status(status)
        self.status = status
        self.content: bytes
        self.pieces: Pieces | None = None
        if isinstance(content, Iterable | AsyncIterable) and not isinstance(content, bytes | str | bytearray):
            self.pieces, content = content, None
        kind, self.content = _body(json, text, html, content)
        pairs: list[Any] = list(items_of("headers", headers))
        if kind is not None and all(name.lower() != "content-type" for name, _ in pairs):
            pairs.append(("Content-Type", kind))
        for name, value in pairs:
            _check_header(name, value)
        self.headers: Headers = Headers(pairs)
        check("delay", delay, _DELAY)
        self.delay: float = seconds_of(delay)
        check("pause", pause, _DELAY)
        self.pause: float = seconds_of(pause)
        if self.pause and self.pieces is None:
            raise TypeError("pause is the time between pieces: give content=[b'first', b'second'], or a delay")
        self.cut_after = cut_after
        self._are_pieces_taken = False

    def __repr__(self) -> str:
        body = f"{len(self.content)} bytes" if self.pieces is None else "in pieces"
        return f"<headgate.testing.MockResponse {self.status}, {body}>"

    def take_pieces(self) -> Pieces:
        """Returns the pieces for one request.

        Raises:
            RuntimeError: They are of an iterator, which another request has taken.
        """
        assert self.pieces is not None  # noqa: S101 - the caller has checked it
        if self._are_pieces_taken and is_one_shot(self.pieces):
            raise RuntimeError(
                "the content of this response is an iterator, which an earlier request has read: give a list, or a"
                " function that makes a response for each request"
            )
        self._are_pieces_taken = True
        return self.pieces

    def json(self) -> Any:  # noqa: ANN401 - whatever is in it
        """Returns the value of a body in JSON."""
        return json_.loads(self.content)

    @property
    def phrase(self) -> str:
        """The standard phrase of the status."""
        try:
            return HTTPStatus(self.status).phrase
        except ValueError:
            return ""


class PassesThrough:
    """Lets a request through to the network."""


GivenResponse: TypeAlias = (
    MockResponse
    | RequestError
    | type[RequestError]
    | int
    | str
    | bytes
    | Mapping[str, Any]
    | list[Any]
    | tuple[int, Any]
)
"""The forms in which a response or an error can be given."""


@dataclass(frozen=True, slots=True)
class MockFailure:
    """The error with which a mock lets a request fail.

    Attributes:
        kind: The error kind.
        message: The message, without the detail.
        is_lasting: Whether it is never retried, whatever `retry_on` contains.
        detail: The part of the message that varies from request to request.
    """

    kind: str
    message: str
    is_lasting: bool = False
    detail: str = ""


def failure_of(error: object) -> MockFailure:
    """Returns the failure for an error as a user gives it.

    Raises:
        TypeError: `error` is not an error of a request, or has no error kind: it is a `StatusError` or a base class.
        ValueError: There is no such error kind.
    """
    if isinstance(error, RequestError) and error.kind in CLASS_OF:
        return MockFailure(error.kind, str(error) or "the mock says so")
    if isinstance(error, type) and issubclass(error, RequestError) and error.kind in CLASS_OF:
        return MockFailure(error.kind, "the mock says so")
    if isinstance(error, str):
        if error in CLASS_OF:
            return MockFailure(error, "the mock says so")
        meant = nearest(error, CLASS_OF)
        hint = f"did you mean {meant!r}?" if meant else f"it is one of {', '.join(CLASS_OF)}"
        raise ValueError(f"there is no kind of error named {error!r}: {hint}")
    given = error.__name__ if isinstance(error, type) else kind_of(error)
    raise TypeError(f"error must be a class such as headgate.ConnectError, not {given}")


def response_of(given: object) -> MockResponse | MockFailure:
    """Returns the response or the failure for a value as a user gives it.

    Raises:
        TypeError: The value is neither.
        ValueError: A part of it is invalid.
    """
    if isinstance(given, MockResponse):
        return given
    if isinstance(given, RequestError) or (isinstance(given, type) and issubclass(given, RequestError)):
        return failure_of(given)
    if isinstance(given, int):
        return MockResponse(given)
    if isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], int):  # noqa: PLR2004 - status and body
        return _with_body(given[0], given[1])
    if isinstance(given, str | bytes | Mapping | list):
        return _with_body(200, given)
    raise TypeError(
        "a response is a headgate.testing.MockResponse, a status, a body, (status, body), or a class such as"
        f" headgate.ConnectError, not {kind_of(given)}"
    )


def _with_body(status: int, body: object) -> MockResponse:
    if isinstance(body, str):
        return MockResponse(status, text=body)
    if isinstance(body, bytes):
        return MockResponse(status, content=body)
    return MockResponse(status, json=body)


def _body(json: object, text: str | None, html: str | None, content: object) -> tuple[str | None, bytes]:
    if json is not NOTHING:
        return "application/json", json_.dumps(json, ensure_ascii=False, separators=(",", ":")).encode()
    if text is not None:
        return "text/plain; charset=utf-8", text.encode()
    if html is not None:
        return "text/html; charset=utf-8", html.encode()
    if content is not None and not isinstance(content, bytes):
        raise TypeError(f"content must be bytes, or an iterable of bytes, not {kind_of(content)}: text has text=")
    return None, content or b""


def _check_status(status: object) -> None:
    if isinstance(status, RequestError) or (isinstance(status, type) and issubclass(status, RequestError)):
        name = status.__name__ if isinstance(status, type) else f"{type(status).__name__}(...)"
        raise TypeError(f"status must be a number, not an error: write error=headgate.{name} for the route")
    if isinstance(status, bool) or not isinstance(status, int):
        raise TypeError(f"status must be a number, not {kind_of(status)}")
    if not 200 <= status <= 999:  # noqa: PLR2004 - the statuses of final responses
        raise ValueError(f"status must be a number from 200 to 999, not {status!r}")


def _check_header(name: object, value: object) -> None:
    if not isinstance(name, str) or not isinstance(value, str):
        raise TypeError(f"headers must be text, not {kind_of(name)} and {kind_of(value)}")
    if any(mark in name + value for mark in "\r\n\0") or not name:
        raise ValueError(f"the header {name!r} can't be sent: {value!r}")
