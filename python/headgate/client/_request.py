"""A request, before it is sent."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import timedelta
from functools import wraps
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, cast

from headgate._checks import kind_of
from headgate._foreign import RedirectKeywords, hint, translated, unexpected
from headgate._native import UploadStream
from headgate._url_user import without_user
from headgate.client._auth import AsyncCallAuth, CallAuth
from headgate.client._body import AsyncFiles, Data, Files, body_of
from headgate.client._client_options import CLIENT, query_pairs
from headgate.client._content import AsyncContent, Content, Piece, Source
from headgate.client._cookie_jar import CookieSource
from headgate.client._cookies import header_of
from headgate.client._headers import Headers, RequestHeaders, encoded
from headgate.client._own_options import OF_CLIENT, OfClient, OwnKeywords, OwnOptions, own_options
from headgate.client._pairs import Pairs, items_of, pairs_of
from headgate.client._tag import Tag_co
from headgate.client._url import UrlLike, UrlObject, text_of
from headgate.jobs._auth import is_function, is_token_source, must_be, user_of
from headgate.jobs._option_entry import Redirects

RequestLike: TypeAlias = "str | UrlObject | Request | Mapping[str, Any]"
"""A request as callers write it: a URL, a `Request`, or a mapping with the attributes of one."""

HeadersLike: TypeAlias = Mapping[str, str | None] | Mapping[str, str] | Iterable[tuple[str, str | None]]
"""Headers as callers write them: a value of `None` means that the header of the client is not sent."""


class NativeRequest(NamedTuple):
    """A request as the engine reads it.

    Attributes:
        credentials: More headers, which are sent only where the credentials of the client are.
        without_credentials: Whether no credentials of the client are sent.
        without_headers: The names of headers of the client that are not sent.
        own: Options that replace those of the client.
        defect: Why the request can't be sent; it fails with this message.
    """

    url: str
    method: str | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    credentials: Sequence[tuple[str, bytes]] = ()
    without_credentials: bool = False
    without_headers: Sequence[str] = ()
    body: bytes | list[Piece] | Source | UploadStream | None = None
    body_type: str | None = None
    cost: int | None = None
    own: OwnOptions | None = None
    defect: str | None = None


Native: TypeAlias = str | NativeRequest
"""A URL alone is also a request."""

_MAX_COST: Final = 2**63

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Request(Generic[Tag_co]):
    """A request to be sent: `Request("https://example.com/", method="POST", json={"a": 1}, tag=7)`.

    >>> request = headgate.Request("/echo", method="POST", json={"a": 1}, tag=7)
    >>> client.send(request).json()["body"]
    '{"a":1}'

    Attributes:
        method: The method.
        url: The URL: absolute, or relative to the `base_url` of the client. A URL of yarl, httpx or `urllib.parse`
            becomes text.
        headers: Headers, which replace those of the client that have the same names. With `None` as its value, a header
            of the client is not sent, nor `User-Agent`, `Accept` or `Accept-Encoding`.
        cookies: Cookies, as names and values or as a jar. They replace those of the client that have the same names.
        params: Parameters that are added to the query, and replace the client's `params` of the same names.
        content: The body: bytes, text, the `Path` of a file, a file in binary mode, or an iterable of bytes, which may
            be asynchronous in an `AsyncClient`. Files and iterables are read while they are sent.
        data: The fields of a form, or the body.
        files: Files of a form: a name with the content, or with a tuple
            `(file name, content, media type, headers of the part)`, of which the last one or two may be missing.
        json: A value that is sent as JSON.
        timeout: Seconds, or a `timedelta`, for each attempt; `None` means no timeout. `"client"`, the default of this
            and of the next seven, means the value of the client.
        connect_timeout: The same for connecting.
        total_timeout: The same for the whole call, whatever it waits for: for all attempts, and for what comes before
            them. One of many requests has this time from its first attempt on.
        pool_timeout: The same for the wait for a slot, see `concurrency` of the client. One of many requests has none.
        retries: Retries after the first attempt.
        max_body_size: Bytes of the longest response body.
        redirects: Which redirects are followed: `follow`, `same-origin` or `none`.
        max_redirects: The most redirects that are followed.
        auth: The credentials of this request: `(user, password)`; a function, which is called with the request, a
            `headgate.PreparedRequest`, before it is sent, once and not for each retry, and changes it or returns
            another (of an `AsyncClient` it may be asynchronous); or `None`, with which none of the client's are sent.
            `"client"`, the default, means the client's.
        cost: The cost for the client's `cost_rate`, a number of 0 or more, rounded up; `None` means 1, or the client's
            `cost_estimate`.
        tag: Any value by which the caller recognises the request. Type checkers know the type of `outcome.tag` from it.
    """

    __module__ = "headgate"

    url: str = field(kw_only=False)
    method: str = "GET"
    headers: HeadersLike | None = None
    cookies: CookieSource | None = None
    params: Pairs | str | None = None
    content: AsyncContent | None = None
    data: Data | None = None
    files: AsyncFiles | None = None
    json: Any = None
    timeout: float | timedelta | OfClient | None = OF_CLIENT
    connect_timeout: float | timedelta | OfClient | None = OF_CLIENT
    total_timeout: float | timedelta | OfClient | None = OF_CLIENT
    pool_timeout: float | timedelta | OfClient | None = OF_CLIENT
    retries: int | OfClient = OF_CLIENT
    max_body_size: int | OfClient = OF_CLIENT
    redirects: Redirects | OfClient = OF_CLIENT
    max_redirects: int | OfClient = OF_CLIENT
    auth: AsyncCallAuth | OfClient | None = OF_CLIENT
    cost: float | None = None
    tag: Tag_co = None  # type: ignore[assignment] # without a tag its type is unknown

    @classmethod
    def of(cls, request: RequestLike) -> "Request[Any]":
        """Returns the request for a URL, a `Request` or a mapping.

        >>> headgate.Request.of({"url": "/hello", "tag": 7})
        Request('/hello', tag=7)

        Raises:
            TypeError: The argument is none of these, or the mapping has an unknown key.
        """
        if isinstance(request, Request):
            return request
        if (url := text_of(request)) is not None:
            return Request(url)
        if not isinstance(request, Mapping):
            raise TypeError(f"a request is a URL, a headgate.Request or a mapping, not {kind_of(request)}")
        for name in request:
            if name not in NAMES:
                raise TypeError(f"a request has no {name!r}{hint(name, NAMES, CLIENT.entries)}")
        if "url" not in request:
            raise TypeError("a request that is a mapping needs a 'url'")
        return cls(**request)

    def __repr__(self) -> str:
        """Returns a description without what may be secret: a user in the URL, headers, parameters and bodies."""
        method = f", method={self.method!r}" if self.method != "GET" else ""
        tag = f", tag={self.tag!r}" if self.tag is not None else ""
        return f"Request({without_user(str(self.url))!r}{method}{tag})"

    def native(self, base_url: str, of_client: Sequence[tuple[str, str]] = ()) -> NativeRequest:
        """Returns the request as the engine reads it, with the `base_url` and the `params` of the client.

        Raises:
            TypeError: An attribute has the wrong type.
            ValueError: The request has more than one body, or an attribute has an invalid value.
        """
        if not isinstance(self.url, str):  # it may come from a mapping
            raise TypeError(f"url must be text, not {kind_of(self.url)}")
        if self.auth is None:
            base_url = without_user(base_url)
        method = self.method if self.method == "GET" else method_of(self.method)
        url = joined(base_url, self.url) if base_url else self.url
        if self.params is not None or of_client:
            url = with_query(url, self.params, of_client)
        if _ADDRESS.issuperset(vars(self)):
            return NativeRequest(url, method)
        headers, removed = _headers_of(self.headers) if self.headers is not None else ([], ())
        if self.cookies is not None:
            headers = _with_cookies(headers, header_of(self.cookies, url))
        body, kind = body_of(self.content, self.data, self.files, self.json, headers)
        if self.auth is not None and self.auth != OF_CLIENT and not is_function(self.auth):
            headers.append(("Authorization", _basic(self.auth)))
        cost = None if self.cost is None else _cost(self.cost)
        own = own_options(self)
        return NativeRequest(url, method, headers, (), self.auth is None, removed, body, kind, cost, own)


NAMES: Final = tuple(each.name for each in fields(Request))
_ATTRIBUTES: Final = frozenset(NAMES)
_ADDRESS: Final = frozenset({"url", "method", "params", "tag"})

_set_all = Request.__init__


@wraps(_set_all)
def _set_given(self: Request, url: UrlLike, **given: Any) -> None:  # noqa: ANN401 - of any attribute
    # Most requests have few attributes: to set all of them to their defaults, one by one, takes longer than the rest.
    if not _ATTRIBUTES.issuperset(given):
        _set_all(self, cast("str", url), **given)  # it raises the error
    given["url"] = url if type(url) is str or (text := text_of(url)) is None else text
    object.__setattr__(self, "__dict__", given)


Request.__init__ = _set_given  # type: ignore[method-assign]


def joined(base_url: str, url: str) -> str:
    """Returns the URL, appended to `base_url` if it is relative; the path of `base_url` stays."""
    if not base_url or ("://" in url and _ABSOLUTE.match(url)):
        return url
    if not url:
        return base_url
    return f"{base_url.rstrip('/')}/{url.lstrip('/')}"


def with_query(url: str, params: Pairs | str | None, of_client: Sequence[tuple[str, str]] = ()) -> str:
    """Returns the URL with these parameters added to its query, and those of the client that neither of both has."""
    from urllib.parse import urlencode  # noqa: PLC0415 - most requests have no parameters

    before, hash_sign, fragment = url.partition("#")
    query = (params or "") if isinstance(params, str | None) else urlencode(pairs_of("params", params))
    if of_client:
        # A link to a next page has the parameters that the client has sent.
        names = {name for name, _ in query_pairs(f"{before.partition('?')[2]}&{query}")}
        query = "&".join(filter(None, (urlencode([pair for pair in of_client if pair[0] not in names]), query)))
    if query:
        before += ("&" if "?" in before else "?") + query
    return before + hash_sign + fragment


def _headers_of(given: HeadersLike) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Returns headers as the engine reads them, and the names of those of the client that are not sent.

    Raises:
        TypeError: A name or a value is not text.
        ValueError: The request would have no `Host`.
    """
    headers, removed = [], []
    for name, value in given.multi_items() if isinstance(given, Headers) else items_of("headers", given):
        if value is None and isinstance(name, str):
            removed.append(name)
        else:
            headers.append(encoded(name, value))
    if any(name.lower() == "host" for name in removed):
        raise ValueError("headers: Host can't be removed, because each request needs it")
    return headers, removed


def _with_cookies(headers: list[tuple[str, bytes]], cookies: bytes) -> list[tuple[str, bytes]]:
    """Returns the headers with cookies in addition to those that they have."""
    given = [value for name, value in headers if name.lower() == "cookie"]
    others = [header for header in headers if header[0].lower() != "cookie"]
    both = b"; ".join(filter(None, (*given, cookies)))
    return [*others, ("Cookie", both)] if both else others


def method_of(method: object) -> str:
    """Returns a method in upper case.

    Raises:
        TypeError: It is not text.
    """
    if not isinstance(method, str):
        raise TypeError(f"method must be text such as 'POST', not {kind_of(method)}")
    return method.upper()


def _cost(cost: object) -> int:
    if isinstance(cost, bool) or not isinstance(cost, int | float):
        raise TypeError(f"cost must be a number, not {kind_of(cost)}")
    if not 0 <= cost <= _MAX_COST:
        raise ValueError(f"cost must be a number from 0 to 2**63, not {cost!r}")
    return math.ceil(cost)


def _basic(auth: object) -> bytes:
    user = user_of(auth)
    if is_token_source(auth):
        raise TypeError("auth of one request can't be an object with token(): give it to the client, headgate.Client")
    if user is None:
        raise TypeError(f"auth {must_be(auth, 'a function or None')}; the client takes bearer='token'")
    import base64  # noqa: PLC0415 - most requests have no password

    return b"Basic " + base64.b64encode(user)


class _SharedKeywords(RedirectKeywords, OwnKeywords, total=False):
    """The keyword arguments of requests, which `headgate.Request` describes, and other names of `redirects`."""

    headers: HeadersLike | None
    cookies: CookieSource | None
    params: Pairs | str | None
    data: Data | None
    json: Any
    cost: float | None


class RequestKeywords(_SharedKeywords, total=False):
    """The keyword arguments of requests of a `Client`."""

    content: Content | None
    files: Files | None
    auth: CallAuth | None


class AsyncRequestKeywords(_SharedKeywords, total=False):
    """The keyword arguments of requests of an `AsyncClient`."""

    content: AsyncContent | None
    files: AsyncFiles | None
    auth: AsyncCallAuth | None


class SendKeywords(RedirectKeywords, total=False):
    """The keyword arguments of `Client.send`, which replace the attributes of the request."""

    auth: CallAuth | OfClient | None
    redirects: Redirects | OfClient
    stream: Literal[False]


class AsyncSendKeywords(RedirectKeywords, total=False):
    """The keyword arguments of `AsyncClient.send`."""

    auth: AsyncCallAuth | OfClient | None
    redirects: Redirects | OfClient
    stream: Literal[False]


_OF_SEND: Final = ("auth", "redirects", "stream")
OF_CALL: Final = tuple(name for name in NAMES if name not in {"url", "method", "tag"})
_KNOWN: Final = frozenset(OF_CALL)


def request_of(method: str, url: UrlLike, options: dict[str, Any], of: str) -> Request:
    """Returns the request for the arguments of a call.

    Raises:
        TypeError: There is no such argument; the message has the one that is probably meant.
    """
    if not _KNOWN.issuperset(options):
        options = translated(options, OF_CALL, of)
    for name in options:
        if name not in _KNOWN:
            raise unexpected(of, name, OF_CALL, CLIENT.entries)
    return Request(url, method=method, **options)  # type: ignore[arg-type] # it becomes text


def built(method: str, url: UrlLike, options: dict[str, Any]) -> Request:
    """Returns a request whose headers can be changed, if they are text. Raises as `request_of`."""
    request = request_of(method, url, options, "build_request")
    pairs = [] if request.headers is None else list(items_of("headers", request.headers))
    is_text = all(isinstance(name, str) and isinstance(value, str) for name, value in pairs)
    return replace(request, headers=RequestHeaders(pairs) if is_text else dict(pairs))


def sent_with(request: Request, options: dict[str, Any]) -> Request:
    """Returns the request with other arguments of `send`.

    Raises:
        TypeError: It is not a `Request`, there is no such argument, or its response would be streamed.
    """
    check_is_request(request)
    options = translated(options, _OF_SEND, "send")
    if options.pop("stream", False):
        raise TypeError("send() got stream=True: here it is client.stream(method, url), as a context manager")
    for name in options:
        if name not in _OF_SEND:
            raise unexpected("send", name, _OF_SEND)
    return replace(request, **options)


def check_is_request(request: object) -> None:
    """Checks the argument of `send`.

    Raises:
        TypeError: It is not a `Request`.
    """
    if not isinstance(request, Request):
        raise TypeError(f"send() takes a headgate.Request, not {kind_of(request)}: for a URL there is get()")
