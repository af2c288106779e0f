"""A request, before it is sent."""

import base64
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias, TypedDict, get_args
from urllib.parse import urlencode

from headgate._checks import kind_of
from headgate._nearest import nearest
from headgate._url_user import without_user
from headgate.client._body import Files, Pairs, body_of, pairs_of
from headgate.jobs._option_entry import Redirects

Asked: TypeAlias = "str | Request | Mapping[str, Any]"
"""What can be asked for: a URL, a request, or a mapping of what a request has."""


class NativeRequest(NamedTuple):
    """A request as the engine reads it.

    Attributes:
        defect: Why it can't be sent: the request fails with this reason.
    """

    url: str
    method: str | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    body: bytes | None = None
    body_type: str | None = None
    timeout_s: float | None = None
    redirects: str | None = None
    cost: int | None = None
    defect: str | None = None


Native: TypeAlias = str | NativeRequest
"""A URL alone is a request as well."""

_MOST_COST: Final = 2**63

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")

_OURS: Final = {
    "timeout": "timeout_s: seconds for each attempt",
    "allow_redirects": "redirects: 'follow', 'same-origin' or 'none'",
    "follow_redirects": "redirects: 'follow', 'same-origin' or 'none'",
    "verify": "insecure or cacert of the client",
    "cert": "cert and key of the client",
    "proxies": "proxy of the client",
    "proxy": "proxy of the client",
    "stream": "client.stream(method, url) in place of the method, as a context manager",
    "cookies": "headers={'Cookie': ...}",
    "extensions": "the options of the client",
    "ssl": "insecure, cacert, cert and key of the client",
}
"""What httpx, requests and aiohttp call what we have under another name."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Request:
    """A request to be sent: `Request("https://example.com/", method="POST", json={"a": 1}, tag=7)`.

    >>> request = headgate.Request("/echo", method="POST", json={"a": 1}, tag=7)
    >>> client.send(request).json()["body"]
    '{"a":1}'

    Attributes:
        method: GET where nothing is said.
        url: Absolute, or relative to the `base_url` of the client.
        headers: They replace those of the client that have the same names.
        params: Added to the query.
        content: The body, as it is.
        data: Fields of a form, or the body.
        files: Files of a form: a name with bytes, a file, or `(file name, content, media type)`.
        json: What is sent as JSON.
        timeout_s: Seconds for each attempt, in place of the client's.
        auth: A user and a password.
        redirects: Which redirects are followed: `follow`, `same-origin` or `none`; `None`: as the client does.
        cost: What it takes of the `rate_cost` of the client, a number of 0 or more, rounded up; `None`: 1, or what the
            client has in `cost_of`.
        tag: Whatever the caller knows it by.
    """

    url: str = field(kw_only=False)
    method: str = "GET"
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None
    params: Pairs | str | None = None
    content: bytes | str | None = None
    data: Pairs | bytes | str | None = None
    files: Files | None = None
    json: Any = None
    timeout_s: float | None = None
    auth: tuple[str, str] | None = None
    redirects: Redirects | None = None
    cost: float | None = None
    tag: Any = None

    @classmethod
    def of(cls, asked: Asked) -> "Request":
        """The request that is asked for.

        >>> headgate.Request.of({"url": "/hello", "tag": 7})
        Request('/hello', tag=7)

        Raises:
            TypeError: It is none.
        """
        if isinstance(asked, Request):
            return asked
        if isinstance(asked, str):
            return cls(asked)
        if not isinstance(asked, Mapping):
            raise TypeError(f"a request is a URL, a headgate.Request or a mapping, not {kind_of(asked)}")
        for name in asked:
            if name not in NAMES:
                refuse(f"a request has no {name!r}", name, NAMES)
        if "url" not in asked:
            raise TypeError("a request that is a mapping needs a 'url'")
        return cls(**asked)

    def __repr__(self) -> str:
        """Without what may be secret: a user in the URL, headers, parameters and bodies."""
        method = f", method={self.method!r}" if self.method != "GET" else ""
        tag = f", tag={self.tag!r}" if self.tag is not None else ""
        return f"Request({without_user(str(self.url))!r}{method}{tag})"

    def native(self, base_url: str) -> NativeRequest:
        """As the engine reads it.

        Raises:
            TypeError: What it has is of a wrong type.
            ValueError: It has more than one body, or a time that can't be.
        """
        if not isinstance(self.url, str):  # it may come from a mapping
            raise TypeError(f"url must be text, not {kind_of(self.url)}")
        url = joined(base_url, self.url) if base_url else self.url
        if self.params is not None:
            url = _with_query(url, self.params)
        body, kind = body_of(self.content, self.data, self.files, self.json)
        headers = list(_headers(self.headers)) if self.headers is not None else []
        if self.auth is not None:
            headers.append(("Authorization", _basic(self.auth)))
        timeout_s = None if self.timeout_s is None else _timeout_s(self.timeout_s)
        redirects = None if self.redirects is None else _redirects(self.redirects)
        cost = None if self.cost is None else _cost(self.cost)
        return NativeRequest(url, _method(self.method), headers, body, kind, timeout_s, redirects, cost)


def natives_of(some: list[Asked], base_url: str) -> list[Native]:
    """As the engine reads them.

    One that can't be sent is replaced in `some` by what is known of it, and is handed on with the reason: it fails, and
    the others go on.
    """
    natives: list[Native] = []
    for index, asked in enumerate(some):
        if isinstance(asked, str):
            natives.append(joined(base_url, asked) if base_url else asked)
            continue
        try:
            natives.append(Request.of(asked).native(base_url))
        except (TypeError, ValueError, OSError) as error:
            some[index] = known = _known_of(asked)
            natives.append(NativeRequest(known.url, defect=str(error)))
    return natives


def _known_of(asked: object) -> Request:
    if isinstance(asked, Request):
        return Request(str(asked.url), tag=asked.tag)
    told: Mapping[str, Any] = asked if isinstance(asked, Mapping) else {}
    return Request(str(told.get("url", "")), tag=told.get("tag"))


NAMES: Final = tuple(each.name for each in fields(Request))


def refuse(told: str, name: str, known: Iterable[str]) -> NoReturn:
    """Raises `TypeError` for a name that is none of ours, with the one that is meant."""
    if name in _OURS:
        raise TypeError(f"{told}: here it is {_OURS[name]}")
    hint = nearest(name, known)
    raise TypeError(told + (f": did you mean {hint}?" if hint else ""))


def joined(base_url: str, url: str) -> str:
    """A URL that may be relative to another, whose whole path stays."""
    if not base_url or ("://" in url and _ABSOLUTE.match(url)):
        return url
    if not url:
        return base_url
    return f"{base_url.rstrip('/')}/{url.lstrip('/')}"


def _with_query(url: str, params: Pairs | str) -> str:
    query = params if isinstance(params, str) else urlencode(pairs_of(params))
    before, hash_sign, fragment = url.partition("#")
    if query:
        before += ("&" if "?" in before else "?") + query
    return before + hash_sign + fragment


def _headers(given: Mapping[str, str] | Iterable[tuple[str, str]]) -> Iterable[tuple[str, bytes]]:
    for name, value in given.items() if isinstance(given, Mapping) else given:
        if not isinstance(name, str) or not isinstance(value, str | bytes):
            raise TypeError(f"headers must be names and values in text: that of {name!r} is {kind_of(value)}")
        yield name, value if isinstance(value, bytes) else value.encode()


def _method(method: object) -> str:
    if not isinstance(method, str):
        raise TypeError(f"method must be text such as 'POST', not {kind_of(method)}")
    return method.upper()


def _timeout_s(timeout_s: object) -> float:
    if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float):
        raise TypeError(f"timeout_s must be a number of seconds, not {kind_of(timeout_s)}")
    if not 0 < timeout_s <= 365 * 86_400:
        raise ValueError(f"timeout_s must be seconds above 0, not {timeout_s!r}")
    return timeout_s


def _redirects(redirects: object) -> str:
    if not isinstance(redirects, str):
        raise TypeError(f"redirects must be text such as 'none', not {kind_of(redirects)}")
    if redirects not in get_args(Redirects):
        raise ValueError(f"redirects must be one of {', '.join(get_args(Redirects))}, not {redirects!r}")
    return redirects


def _cost(cost: object) -> int:
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        raise TypeError(f"cost must be a number, not {kind_of(cost)}")
    if not 0 <= cost <= _MOST_COST:
        raise ValueError(f"cost must be a number from 0 to 2**63, not {cost!r}")
    return math.ceil(cost)


def _basic(auth: object) -> bytes:
    if not isinstance(auth, tuple | list) or len(auth) != 2:  # noqa: PLR2004 - a pair
        raise TypeError(f"auth must be a user and a password, not {kind_of(auth)}")
    return b"Basic " + base64.b64encode(":".join(map(str, auth)).encode())


class RequestKeywords(TypedDict, total=False):
    """As `headgate.Request` describes them."""

    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None
    params: Pairs | str | None
    content: bytes | str | None
    data: Pairs | bytes | str | None
    files: Files | None
    json: Any
    timeout_s: float | None
    auth: tuple[str, str] | None
    redirects: Redirects | None
    cost: float | None


OF_CALL: Final = tuple(name for name in NAMES if name not in {"url", "method", "tag"})


def request_of(method: str, url: str, options: dict[str, Any], of: str) -> Request:
    """The request that a call asks for.

    Raises:
        TypeError: It has no such argument; named is the one that is meant.
    """
    for name in options:
        if name not in OF_CALL:
            refuse(f"{of}() has no {name!r}", name, OF_CALL)
    return Request(url, method=method, **options)


def refuse_other(request: object) -> None:
    """Refuses what `send` does not take.

    Raises:
        TypeError: It is no request.
    """
    if not isinstance(request, Request):
        raise TypeError(f"send() takes a headgate.Request, not {kind_of(request)}: for a URL there is get()")
