"""`auth` of clients and of calls: what jobs have, too, or a function that changes each request."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Annotated, TypeAlias, TypedDict

from headgate._url_user import without_user
from headgate.jobs._auth import Auth, Pair
from headgate.jobs._option_entry import JobOption


class PreparedRequest:
    """A request as it is about to be sent: an `auth` function changes its attributes.

    >>> def sign(request):
    ...     request.headers["X-Signature"] = str(len(request.content or b""))
    >>> client.post("/echo", content=b"abc", auth=sign).json()["method"]
    'POST'

    Attributes:
        method: The method.
        url: The absolute URL, with its parameters.
        headers: The headers of the call, by their case-insensitive names, and the `Content-Type` of the body. Those of
            the client, which are sent, too, are not among them.
        content: The body, or `None` if there is none or it is read while it is sent.
    """

    __module__ = "headgate"

    __slots__ = ("content", "headers", "method", "url")

    def __init__(self, method: str, url: str, headers: MutableMapping[str, str], content: bytes | None = None) -> None:
        self.method: str = method
        self.url: str = url
        self.headers: MutableMapping[str, str] = headers
        self.content: bytes | None = content

    def __repr__(self) -> str:
        """Returns a description without what may be secret."""
        return f"<PreparedRequest [{self.method}] {without_user(self.url)}>"


AuthFunction: TypeAlias = Callable[[PreparedRequest], PreparedRequest | None]
AsyncAuthFunction: TypeAlias = Callable[[PreparedRequest], PreparedRequest | Awaitable[PreparedRequest | None] | None]

CallAuth: TypeAlias = Pair | AuthFunction
"""The credentials of a call of a `Client`."""

AsyncCallAuth: TypeAlias = Pair | AsyncAuthFunction
"""Those of a call of an `AsyncClient`."""

_HELP = (
    "Credentials: `(user, password)`; an object whose `token()`, which may be asynchronous, returns the token to send"
    " as `Authorization: Bearer`, and is called before the first request, after its `ttl` in seconds, if it has one,"
    " and after a 401: one call at a time; or a function, which is called once with each request, a"
    " `headgate.PreparedRequest`, and changes it or returns another. Headers that it sets are credentials."
)


class ClientAuthOption(TypedDict, total=False):
    """The credentials of a `Client`."""

    auth: Annotated[
        Auth | AuthFunction | None,
        JobOption(help=_HELP, default=None, default_means="none", given_as="request_auth", secret=True),
    ]


class AsyncClientAuthOption(TypedDict, total=False):
    """The credentials of an `AsyncClient`."""

    auth: Annotated[
        Auth | AsyncAuthFunction | None,
        JobOption(
            help=f"{_HELP} It may be asynchronous.",
            default=None,
            default_means="none",
            given_as="request_auth",
            secret=True,
        ),
    ]
