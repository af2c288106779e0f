"""The jar of the engine that holds the cookies of a client or of a response, and how cookies of others are read."""

import os
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from headgate._checks import check, kind_of
from headgate._errors import UsageError
from headgate._native import CookieJar as NativeJar

if TYPE_CHECKING:
    from http.cookiejar import CookieJar

_LOCALHOST: Final = "localhost.local"
"""What `http.cookiejar` makes of `localhost`, as of each name without a dot."""


class CookieLike(Protocol):
    """A cookie of `http.cookiejar`."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def value(self) -> str | None:
        """Its value."""
        ...

    @property
    def domain(self) -> str:
        """Its domain; with a leading dot if it is also for the hosts below."""
        ...


CookieSource: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]] | Iterable[CookieLike]
"""Cookies as callers give them: names and values, `Cookies`, or a `CookieJar` of `http.cookiejar`."""


class Cookie(NamedTuple):
    """A cookie as the engine has it."""

    name: str
    value: str
    domain: str
    path: str
    is_host_only: bool
    is_secure: bool
    is_http_only: bool
    expires: int | None


class SharedJar:
    """A jar of the engine, which clients may share. After a fork, the child has a copy."""

    def __init__(self) -> None:
        self.native: NativeJar = NativeJar()
        self.copy_for_fork: NativeJar | None = None

    def prepare_for_forks(self) -> None:
        """Copies it before each fork: threads of an engine may hold its lock then."""
        key = id(self)
        _shared[key] = weakref.ref(self, lambda _: _shared.pop(key, None))


_shared: dict[int, weakref.ref[SharedJar]] = {}
_fork_lock = threading.RLock()


def _jars() -> Iterator[SharedJar]:
    yield from filter(None, [reference() for reference in list(_shared.values())])


def _before_fork() -> None:
    _fork_lock.acquire()
    for jar in _jars():
        jar.copy_for_fork = jar.native.copy()


def _after_fork_in_parent() -> None:
    for jar in _jars():
        jar.copy_for_fork = None
    _fork_lock.release()


def _after_fork_in_child() -> None:
    global _fork_lock  # noqa: PLW0603 - it may have waiters that do not exist any more
    _fork_lock = threading.RLock()
    for jar in _jars():
        if jar.copy_for_fork is not None:
            jar.native, jar.copy_for_fork = jar.copy_for_fork, None


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)


class BoundJar:
    """A jar, and the URL to whose host cookies without a domain belong; without a URL, there can be none."""

    def __init__(self, url: str = "", jar: SharedJar | None = None) -> None:
        self.url = url
        self.shared: SharedJar = jar or SharedJar()

    @property
    def native(self) -> NativeJar:
        """The jar of the engine."""
        return self.shared.native

    def cookies(self) -> list[Cookie]:
        """Returns the cookies that have not expired."""
        return [Cookie(*cookie) for cookie in self.native.cookies()]

    def header_for(self, url: str) -> str:
        """Returns the value of the `Cookie` header of a request to this URL; empty: it has none."""
        return "; ".join(f"{name}={value}" for name, value, *_ in self.native.cookies(url))

    def add(self, cookie: Cookie) -> None:
        """Adds a cookie.

        Raises:
            UsageError: It can't be sent.
        """
        try:
            self.native.set(cookie)
        except ValueError as error:
            raise UsageError(f"cookies {error}") from None

    def set(self, name: str, value: str, domain: str, path: str) -> None:
        """Adds a cookie of the user. Raises as `Cookies.set`."""
        for argument, text in (("name", name), ("value", value), ("domain", domain), ("path", path)):
            if not isinstance(text, str):
                raise TypeError(f"the {argument} of a cookie must be text, not {kind_of(text)}")
        is_of_host, is_secure = not domain, False
        if is_of_host:
            domain, is_secure = self._host(name)
        self.add(Cookie(name, value, domain, path, is_of_host, is_secure, is_http_only=False, expires=None))

    def update(self, cookies: Any) -> None:  # noqa: ANN401 - whatever the caller gave
        """Adds copies of cookies. Raises as `Cookies.update`."""
        other = getattr(cookies, "bound", None)
        if isinstance(other, BoundJar):
            for cookie in other.cookies():
                self.add(cookie)
            return
        jar = getattr(cookies, "jar", cookies)  # `httpx.Cookies` has one
        if not _is_jar(jar):
            check("cookies", cookies, _collection)
            jar = cookies.items() if isinstance(cookies, Mapping) else cookies
        for item in jar:
            if isinstance(item, tuple | list):
                if len(item) != 2:  # noqa: PLR2004 - a pair
                    raise TypeError("cookies must be pairs of a name and a value")
                name, value = item
                self.set(name, value, "", "/")
            elif not hasattr(item, "domain"):
                raise TypeError(f"cookies must be a mapping or a CookieJar, not a collection of {kind_of(item)}")
            else:
                self._add_other(item)

    def copied(self) -> "CookieJar":
        """Returns a copy of the cookies for `http.cookiejar`."""
        from http import cookiejar  # noqa: PLC0415 - it takes 20 ms

        jar = cookiejar.CookieJar()
        for cookie in self.cookies():
            domain = cookie.domain if cookie.is_host_only else f".{cookie.domain}"
            jar.set_cookie(
                cookiejar.Cookie(
                    version=0,
                    name=cookie.name,
                    value=cookie.value,
                    port=None,
                    port_specified=False,
                    domain=_LOCALHOST if domain == "localhost" else domain,
                    domain_specified=not cookie.is_host_only,
                    domain_initial_dot=not cookie.is_host_only,
                    path=cookie.path,
                    path_specified=True,
                    secure=cookie.is_secure,
                    expires=cookie.expires,
                    discard=cookie.expires is None,
                    comment=None,
                    comment_url=None,
                    rest={"HttpOnly": ""} if cookie.is_http_only else {},
                )
            )
        return jar

    def _add_other(self, cookie: Any) -> None:  # noqa: ANN401 - `http.cookiejar.Cookie`, without its import
        domain, is_secure = cookie.domain, bool(cookie.secure)
        is_host_only = not domain.startswith(".") and not cookie.domain_specified
        if domain == _LOCALHOST:
            domain = "localhost"
        if not domain:
            (domain, has_tls), is_host_only = self._host(cookie.name), True
            is_secure = is_secure or has_tls
        is_http_only = any(cookie.has_nonstandard_attr(name) for name in ("HttpOnly", "httponly", "HTTPOnly"))
        expires = None if cookie.expires is None else int(cookie.expires)
        value, path = cookie.value or "", cookie.path or "/"
        self.add(Cookie(cookie.name, value, domain, path, is_host_only, is_secure, is_http_only, expires))

    def _host(self, name: str) -> tuple[str, bool]:
        """Returns the host of the URL, and whether it has TLS."""
        from urllib.parse import urlsplit  # noqa: PLC0415 - most programs set no cookies

        url = urlsplit(self.url)
        if not url.hostname:
            raise UsageError(
                f"cookies need a domain, and nothing says which host may get {name!r}: give base_url, or the domain"
                " with client.cookies.set(name, value, domain='api.example.com')"
            )
        return url.hostname, url.scheme == "https"


def _collection(cookies: object) -> None:
    if isinstance(cookies, str | bytes) or not isinstance(cookies, Iterable):
        raise TypeError(f"must be a mapping or a CookieJar, not {kind_of(cookies)}")


def _is_jar(cookies: object) -> bool:
    """Returns whether it is a jar of `http.cookiejar`, whose module is loaded if there is one."""
    module = sys.modules.get("http.cookiejar")
    return module is not None and isinstance(cookies, module.CookieJar)
