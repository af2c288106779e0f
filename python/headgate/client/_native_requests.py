"""Requests of a client as the engine reads them, after `auth` functions were called."""

from collections.abc import Awaitable, Callable, Mapping
from types import CoroutineType
from typing import TYPE_CHECKING, Any, cast

from headgate._checks import kind_of
from headgate._url_user import without_user
from headgate.client._client_options import ClientOptions
from headgate.client._content import Source
from headgate.client._errors import InvalidRequest
from headgate.client._headers import RequestHeaders, encoded
from headgate.client._hook_calls import run, run_async
from headgate.client._own_options import OF_CLIENT
from headgate.client._pairs import items_of
from headgate.client._prepared_request import PreparedRequest
from headgate.client._request import (
    Native,
    NativeRequest,
    Request,
    RequestLike,
    joined,
    method_of,
    with_query,
)
from headgate.jobs._auth import is_function

if TYPE_CHECKING:
    from headgate.client._engine import Engine
    from headgate.client._observer import Observer


def native_of(request: Request, options: ClientOptions) -> NativeRequest:
    """Returns the request of a call as the engine reads it, after its `auth` function was called.

    Raises:
        InvalidRequest: An attribute has an invalid value, or the request has more than one body.
        TypeError: The `auth` function is asynchronous, or returned something else than a request.
        Exception: Whatever the `auth` function raised.
    """
    native = _checked(request, options, may_be_async=False)
    authorization = Authorization.of(request, native, options)
    return native if authorization is None else authorization.native()


async def async_native_of(request: Request, options: ClientOptions) -> NativeRequest:
    """Returns the request of a call in an event loop as `native_of` does; the `auth` function may be asynchronous."""
    native = _checked(request, options, may_be_async=True)
    authorization = Authorization.of(request, native, options)
    return native if authorization is None else await authorization.async_native()


def _checked(request: Request, options: ClientOptions, *, may_be_async: bool) -> NativeRequest:
    try:
        native = request.native(options.base_url, options.params)
        if native.body is not None and not may_be_async:
            _check_is_not_async(native.body)
    except (TypeError, ValueError, OSError) as error:
        url = _text_of(request.url)
        raise InvalidRequest(f"{without_user(url)}: {error}" if url else str(error), url=url) from error
    return native


def _check_is_not_async(body: object) -> None:
    if isinstance(body, Source) and body.is_async:
        raise TypeError("the content is an asynchronous iterable or file: that needs an AsyncClient")


def observed_native_of(engine: "Engine", request: Request, observer: "Observer | None") -> NativeRequest:
    """Returns the request as the engine reads it, after the `auth` function and the hooks were called."""
    native = native_of(request, engine.options)
    return native if observer is None else run(observer.prepare(engine.native, native))


async def async_observed_native_of(engine: "Engine", request: Request, observer: "Observer | None") -> NativeRequest:
    """Returns the request as `observed_native_of` does, after asynchronous functions were awaited, too."""
    native = await async_native_of(request, engine.options)
    return native if observer is None else await run_async(observer.prepare(engine.native, native))


def natives_of(requests: list[RequestLike], options: ClientOptions) -> list[Native]:
    """Returns the requests as the engine reads them, after `auth` functions were called.

    A request that can't be sent, or whose `auth` function raises an error, gets a defect, so that only this one fails.
    In `requests` it is replaced by a `Request` with its URL and tag.
    """
    base_url, params, has_function = options.base_url, options.params, is_function(options.auth)
    if set(map(type, requests)) == {str} and not params and not has_function:
        urls = cast("list[str]", requests)
        # As `joined` does, without a call for each of those that are relative.
        root = base_url.rstrip("/")
        if not base_url:
            return [*urls]
        return [f"{root}/{url.lstrip('/')}" if url and "://" not in url else joined(base_url, url) for url in urls]
    natives: list[Native] = []
    for index, request in enumerate(requests):
        if isinstance(request, str) and not has_function:
            url = joined(base_url, request) if base_url else request
            natives.append(with_query(url, None, params) if params else url)
            continue
        try:
            of_call = Request.of(request)
            native = of_call.native(base_url, params)
            _check_is_no_source(native)
            authorization = Authorization.of(of_call, native, options)
            natives.append(native if authorization is None else authorization.native_or_defect())
        except (TypeError, ValueError, OSError) as error:
            requests[index] = invalid = _invalid_request(request)
            natives.append(NativeRequest(invalid.url, defect=str(error)))
    return natives


def _check_is_no_source(native: NativeRequest) -> None:
    if isinstance(native.body, Source):
        raise TypeError(
            "the content of one of many requests can't be made while it is sent: give bytes, a file or a Path, or send"
            " this request with send()"
        )


def _invalid_request(request: object) -> Request:
    if isinstance(request, Request):
        return Request(_text_of(request.url), tag=request.tag)
    given: Mapping[str, Any] = request if isinstance(request, Mapping) else {}
    return Request(_text_of(given.get("url")), tag=given.get("tag"))


def _text_of(url: object) -> str:
    """Returns a URL as text, whatever its type is: empty if there is none."""
    return "" if url is None else str(url)


class Authorization:
    """A request that an `auth` function changes before it is sent."""

    def __init__(
        self,
        native: NativeRequest,
        function: Callable[[PreparedRequest], object],
        tag: Any,  # noqa: ANN401 - the caller's
        *,
        is_of_client: bool,
    ) -> None:
        self._native = native
        self._function = function
        self._is_of_client = is_of_client
        before = {(name, value.decode(errors="replace")): (name, value) for name, value in native.headers}
        headers = RequestHeaders(list(before))
        if native.body_type is not None and "content-type" not in headers:
            headers["Content-Type"] = native.body_type
            before["Content-Type", native.body_type] = "Content-Type", native.body_type.encode()
        self._headers_before = before
        self._content = native.body if isinstance(native.body, bytes) else None
        self._prepared = PreparedRequest(native.method or "GET", native.url, headers, self._content, tag)

    @classmethod
    def of(cls, request: Request, native: NativeRequest, options: ClientOptions) -> "Authorization | None":
        """Returns the authorization of a request by a function of its own or of the client, if there is one."""
        is_of_client = request.auth == OF_CLIENT
        function = options.auth if is_of_client else request.auth
        if function is None or not is_function(function):
            return None
        names = (*native.without_headers, *(name for name, _ in native.headers))
        if is_of_client and any(name.lower() == "authorization" for name in names):
            return None
        return cls(native, function, request.tag, is_of_client=is_of_client)

    def native(self) -> NativeRequest:
        """Calls the function, and returns the request as it is afterwards. Raises as `native_of`."""
        returned = self._function(self._prepared)
        if isinstance(returned, Awaitable):
            if isinstance(returned, CoroutineType):
                returned.close()
            raise TypeError("auth is asynchronous: only single requests of an AsyncClient wait for it")
        return self._native_of(returned)

    def native_or_defect(self) -> NativeRequest:
        """Returns the same, with an error of the function as its defect."""
        try:
            return self.native()
        except Exception as error:  # noqa: BLE001 - only this one of many requests fails
            return NativeRequest(self._native.url, defect=f"auth: {type(error).__name__}: {error}")

    async def async_native(self) -> NativeRequest:
        """Returns the same, and waits for an asynchronous function."""
        returned = self._function(self._prepared)
        if isinstance(returned, Awaitable):
            returned = await returned
        return self._native_of(returned)

    def _native_of(self, returned: object) -> NativeRequest:
        changed = self._prepared if returned is None else returned
        if not isinstance(changed, PreparedRequest):
            raise TypeError(f"auth must return None or a headgate.PreparedRequest, not {kind_of(returned)}")
        if not isinstance(changed.url, str):
            raise TypeError(f"auth must leave a url in text, not {kind_of(changed.url)}")
        if not isinstance(changed.content, bytes | None):
            raise TypeError(f"auth must leave content in bytes, not {kind_of(changed.content)}")
        given = changed.headers
        headers = list(given.multi_items() if isinstance(given, RequestHeaders) else items_of("headers", given))
        before = self._headers_before
        kept = [before[header] for header in headers if header in before]
        added = [encoded(name, value) for name, value in headers if (name, value) not in before]
        if not self._is_of_client:
            kept, added = [*kept, *added], []
        body = self._native.body if changed.content is self._content else changed.content
        return self._native._replace(
            url=changed.url, method=method_of(changed.method), headers=kept, credentials=added, body=body
        )
