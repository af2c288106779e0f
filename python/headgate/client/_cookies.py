"""Cookies: those of a client, which its engine keeps in a jar, and those that one response sets."""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Annotated, Final, TypedDict

from headgate._errors import HeadgateError
from headgate.client._cookie_jar import BoundJar, Cookie, CookieSource
from headgate.jobs._option_entry import JobOption

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

_SHOWN: Final = 10
_ANY_URL: Final = "http://any.invalid/"
"""To this belong cookies of a call that have no domain: they are sent whatever its URL is."""


class ClientCookiesOption(TypedDict, total=False):
    """The cookies of a client."""

    cookies: Annotated[
        CookieSource | bool | None,
        JobOption(
            help=(
                "Keep the cookies that servers set, and send them with later requests: `True`, or the cookies to begin"
                " with. Names and values are sent to the host of `base_url`. An `http.cookiejar.CookieJar` is copied."
                " The `cookies` of another client are shared with it. `None` keeps none."
            ),
            default=None,
            default_means="none",
            secret=True,
        ),
    ]


class CookieConflict(HeadgateError, LookupError):  # noqa: N818 - what happened
    """Several cookies have the name: `get` takes a domain and a path.

    >>> cookies = headgate.Cookies()
    >>> cookies.set("id", "1", domain="a.example")
    >>> cookies.set("id", "2", domain="b.example")
    >>> cookies["id"]
    Traceback (most recent call last):
    headgate.CookieConflict: several cookies are called 'id': name a domain or a path with get()
    >>> cookies.get("id", domain="b.example")
    '2'
    """


class Cookies(MutableMapping[str, str]):
    """The cookies of a client or of a response: a mapping from their names to their values.

    A cookie belongs to a domain and a path, so several may have the same name: then reading it by its name alone raises
    a `CookieConflict`, and an iteration yields the name several times. It may be used from any thread.

    >>> with headgate.Client(base_url="http://127.0.0.1:8080", cookies={"seen": "1"}) as client:
    ...     client.get("/cookies/set?session=7").json()
    ...     dict(client.cookies), client.cookies.get("session", domain="127.0.0.1")
    {'cookies': {'seen': '1', 'session': '7'}}
    ({'seen': '1', 'session': '7'}, '7')
    """

    __module__ = "headgate"

    def __init__(self, cookies: CookieSource | BoundJar = ()) -> None:
        """Creates a jar of its own, with a copy of cookies that have a domain.

        Raises:
            UsageError: A cookie has no domain, or can't be sent.
        """
        self._bound = cookies if isinstance(cookies, BoundJar) else BoundJar()
        if not isinstance(cookies, BoundJar):
            self.update(cookies)

    @property
    def bound(self) -> BoundJar:
        """The jar of the engine."""
        return self._bound

    @property
    def jar(self) -> "CookieJar":
        """A copy of the cookies as an `http.cookiejar.CookieJar`, which other libraries take and which can be saved.

        >>> cookies = headgate.Cookies()
        >>> cookies.set("id", "7", domain="api.example")
        >>> [(cookie.name, cookie.domain) for cookie in cookies.jar]
        [('id', '.api.example')]
        """
        return self._bound.copied()

    def set(self, name: str, value: str, domain: str = "", path: str = "/") -> None:
        """Sets a cookie, which is kept until the program ends.

        >>> cookies = headgate.Cookies()
        >>> cookies.set("id", "7", domain="api.example", path="/v1")
        >>> cookies
        <Cookies [id=*** for .api.example/v1]>

        Args:
            name: The name.
            value: The value.
            domain: The domain for which it is, and the hosts below it. Without one, it is for the host of the client's
                `base_url` alone, and only with TLS if the `base_url` has it.
            path: The path for which it is, and the paths below it.

        Raises:
            UsageError: It has no domain, or can't be sent.
            TypeError: An argument is not text.
        """
        self._bound.set(name, value, domain, path)

    def get(  # type: ignore[override] # with more arguments
        self, name: str, default: str | None = None, domain: str | None = None, path: str | None = None
    ) -> str | None:
        """Returns the value of the cookie with this name, and with this domain and path if they are given.

        >>> client.get("/cookies/set?a=1", redirects="none").cookies.get("a", path="/")
        '1'

        Raises:
            CookieConflict: There are several.
        """
        values = [cookie.value for cookie in self._bound.cookies() if _is(cookie, name, domain, path)]
        if len(values) > 1:
            raise CookieConflict(f"several cookies are called {name!r}: name a domain or a path with get()")
        return values[0] if values else default

    def delete(self, name: str, domain: str | None = None, path: str | None = None) -> None:
        """Removes the cookies with this name, and with this domain and path if they are given.

        >>> cookies = client.get("/cookies/set?a=1&b=2", redirects="none").cookies
        >>> cookies.delete("a")
        >>> list(cookies)
        ['b']
        """
        self._bound.native.remove(name, _domain(domain), path)

    def clear(self, domain: str | None = None, path: str | None = None) -> None:
        """Removes all cookies, or those with this domain and path.

        >>> cookies = client.get("/cookies/set?a=1&b=2", redirects="none").cookies
        >>> cookies.clear(domain="127.0.0.1")
        >>> len(cookies)
        0
        """
        self._bound.native.remove(None, _domain(domain), path)

    def update(self, cookies: CookieSource = (), /, **pairs: str) -> None:  # type: ignore[override] # more types
        """Adds copies of cookies: of a mapping, of an `http.cookiejar.CookieJar`, or of other `Cookies`.

        >>> more = headgate.Cookies()
        >>> more.update(client.get("/cookies/set?a=1", redirects="none").cookies)
        >>> dict(more)
        {'a': '1'}

        Raises:
            UsageError: A cookie has no domain, or can't be sent.
            TypeError: The argument is none of these.
        """
        self._bound.update(cookies)
        for name, value in pairs.items():
            self.set(name, value)

    def __getitem__(self, name: str) -> str:
        value = self.get(name)
        if value is None:
            raise KeyError(name)
        return value

    def __setitem__(self, name: str, value: str) -> None:
        self.set(name, value)

    def __delitem__(self, name: str) -> None:
        if not self._bound.native.remove(name, None, None):
            raise KeyError(name)

    def __contains__(self, name: object) -> bool:
        return any(cookie.name == name for cookie in self._bound.cookies())

    def __iter__(self) -> Iterator[str]:
        return iter([cookie.name for cookie in self._bound.cookies()])

    def __len__(self) -> int:
        return len(self._bound.native.cookies())

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        ours = sorted((cookie.name, cookie.value) for cookie in self._bound.cookies())
        theirs = (
            [(each.name, each.value) for each in other.bound.cookies()] if isinstance(other, Cookies) else other.items()
        )
        return ours == sorted(theirs)

    __hash__ = None  # type: ignore[assignment] # it changes

    def __repr__(self) -> str:
        """Returns the names of the first cookies, without the values, which may be credentials."""
        all_of_them = self._bound.cookies()
        shown = [
            f"{cookie.name}=*** for {'' if cookie.is_host_only else '.'}{cookie.domain}{cookie.path}"
            for cookie in all_of_them[:_SHOWN]
        ]
        more = [f"{len(all_of_them) - _SHOWN} more"] if len(all_of_them) > _SHOWN else []
        return f"<Cookies [{', '.join([*shown, *more])}]>"

    def __reduce__(self) -> tuple[object, ...]:
        """Copies are independent: they do not share the jar of a client."""
        return _restored, (self._bound.url, self._bound.cookies())


def _restored(url: str, cookies: list[Cookie]) -> Cookies:
    bound = BoundJar(url)
    for cookie in cookies:
        bound.add(cookie)
    return Cookies(bound)


def _domain(domain: str | None) -> str | None:
    """Returns a domain as the jar has it."""
    return None if domain is None else domain.lstrip(".").lower()


def _is(cookie: Cookie, name: str, domain: str | None, path: str | None) -> bool:
    is_there = path is None or cookie.path == path
    return cookie.name == name and is_there and (domain is None or cookie.domain == _domain(domain))


def of_option(given: CookieSource | bool | None, base_url: str) -> Cookies | None:  # noqa: FBT001 - the option is
    """Returns the cookies of a client for the value of its option; `None`: it keeps none.

    Raises:
        UsageError: A cookie has no domain, or can't be sent.
        TypeError: The value has the wrong type.
    """
    if given is None or given is False:
        return None
    cookies = Cookies(BoundJar(base_url, given.bound.shared if isinstance(given, Cookies) else None))
    if given is not True and not isinstance(given, Cookies):
        cookies.update(given)
    cookies.bound.shared.prepare_for_forks()
    return cookies


def copied(cookies: CookieSource, base_url: str) -> Cookies:
    """Returns copies of cookies for a client with this `base_url`. Raises as `of_option`."""
    copy = Cookies(BoundJar(base_url))
    copy.update(cookies)
    return copy


def of_response(url: str, set_cookies: list[str]) -> Cookies:
    """Returns the cookies that a response from this URL sets."""
    bound = BoundJar(url)
    bound.native.store(url, [value.encode() for value in set_cookies])
    return Cookies(bound)


def header_of(given: CookieSource, url: str) -> bytes:
    """Returns the value of the `Cookie` header for the cookies of a call.

    Of cookies that have a domain, only those for the URL are sent.

    Raises:
        UsageError: A cookie can't be sent.
        TypeError: The argument has the wrong type.
    """
    bound = BoundJar(_ANY_URL)
    bound.update(given)
    return "; ".join(filter(None, (bound.header_for(url), bound.header_for(_ANY_URL)))).encode()
