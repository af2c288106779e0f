"""`auth`: a user and a password, or an object whose tokens are renewed while requests are made."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, TypeAlias, TypedDict, TypeGuard

from headgate._checks import kind_of
from headgate.jobs._option_entry import JobOption

Pair: TypeAlias = tuple[str | bytes, str | bytes]
"""A user and a password."""


class TokenSource(Protocol):
    """An object whose tokens are sent as `Authorization: Bearer`.

    It may have an attribute `ttl`: after this number of seconds a token is renewed.
    """

    def token(self) -> str | Awaitable[str]:
        """Returns a new token."""
        ...


Auth: TypeAlias = Pair | TokenSource


class AuthOption(TypedDict, total=False):
    """The credentials of a job or of tables."""

    auth: Annotated[
        Auth | None,
        JobOption(
            help="Credentials: `(user, password)`; or an object whose `token()`, which may be asynchronous, returns the"
            " token to send as `Authorization: Bearer`. It is called before the first request, after its `ttl` in"
            " seconds, if it has one, and after a 401: one call at a time.",
            default=None,
            default_means="none",
            given_as="auth",
            secret=True,
        ),
    ]


def is_token_source(auth: object) -> TypeGuard[TokenSource]:
    """Returns whether it is an object, and no class, with a method `token`."""
    return not isinstance(auth, type) and callable(getattr(auth, "token", None))


def is_function(auth: object) -> TypeGuard[Callable[..., Any]]:
    """Returns whether it is a function that changes requests."""
    return callable(auth) and not isinstance(auth, type) and not is_token_source(auth)


def user_of(pair: object) -> bytes | None:
    """Returns `user:password` for a user and a password that UTF-8 can encode; `None` for something else."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:  # noqa: PLR2004 - a pair
        return None
    if not all(isinstance(part, str | bytes) for part in pair):
        return None
    try:
        return b":".join(part if isinstance(part, bytes) else part.encode() for part in pair)
    except UnicodeEncodeError:
        return None


def must_be(auth: object, kinds: str) -> str:
    """Returns the end of a message about a value that is none of the kinds; it has no part of the value."""
    if isinstance(auth, type) and hasattr(auth, "token"):
        return f"must be an object, not its class: write {auth.__name__}()"
    write = ": write ('name', 'password')" if isinstance(auth, str | bytes | tuple | list) else ""
    return f"must be a user and a password in text, {kinds}, not {kind_of(auth)}{write}"
