"""`auth` of clients and of calls: what jobs have, too, or a function that changes each request."""

from collections.abc import Awaitable, Callable
from typing import Annotated, TypeAlias, TypedDict

from headgate.client._prepared_request import PreparedRequest
from headgate.jobs._auth import Auth, Pair
from headgate.jobs._option_entry import JobOption

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
