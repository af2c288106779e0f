"""Calls the hooks of a client, and logs, for one request."""

import time
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from headgate._checks import kind_of
from headgate._url_user import without_user
from headgate.client._attempt import attempt_of
from headgate.client._errors import RequestCancelled, RequestError
from headgate.client._headers import RequestHeaders, encoded
from headgate.client._hook_calls import Calls, run, run_async
from headgate.client._hooks import NO_HOOKS, Hooks
from headgate.client._log import DEBUG, INFO, enabled_logger, log_attempt, log_request, shown
from headgate.client._pairs import items_of
from headgate.client._prepared_request import PreparedRequest
from headgate.client._request import NativeRequest, Request, RequestLike, method_of
from headgate.client._response import Response
from headgate.client._sent_request import prepared_fields, prepared_of

if TYPE_CHECKING:
    from headgate import _native
    from headgate.client._client_options import ClientOptions
    from headgate.client._request import Native


class Observer:
    """Calls hooks and logs, for one request. What is raised in its block is reported as the error of the call.

    Attributes:
        extensions: What hooks store in the requests of this call.
    """

    def __init__(self, options: "ClientOptions", request: RequestLike) -> None:
        self._hooks: Hooks = options.hooks or NO_HOOKS
        self._request = request
        self._began = time.monotonic()
        self._debug_logger = enabled_logger(DEBUG)
        self._attempts = 0
        self._ended: float | None = None
        self._is_finished = False
        self._sent: tuple[_native.Client, NativeRequest] | None = None
        self._prepared: PreparedRequest | None = None
        self.extensions: dict[str, Any] = {}

    @property
    def follows_attempts(self) -> bool:
        """Whether it needs the attempts of the request."""
        return bool(self._hooks.attempt) or self._debug_logger is not None

    def stop_timing(self) -> None:
        """Ends the time that is logged."""
        self._ended = time.monotonic()

    def finish(self) -> None:
        """Ends the reporting: what the block raises after the response is no error of its call."""
        self._is_finished = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if error is not None and not self._is_finished:
            run(self.error(self._error_of(error)))
        return False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> Literal[False]:
        if error is not None and not self._is_finished:
            await run_async(self.error(self._error_of(error)))
        return False

    @property
    def _elapsed_s(self) -> float:
        return (self._ended or time.monotonic()) - self._began

    def prepare(self, client: "_native.Client", native: NativeRequest) -> Calls[NativeRequest]:
        """Calls the `request` hooks, and returns the request as they have changed it."""
        self._sent = client, native
        if not self._hooks.request:
            return native
        fields = prepared_fields(client, native)
        if fields is None:
            return native  # the engine says why it can't be sent
        prepared, before = prepared_of(fields, self._request), prepared_of(fields, self._request)
        prepared.extensions = self.extensions
        self._prepared = prepared
        for hook in self._hooks.request:
            yield hook(prepared)
        return _changed(native, before, prepared)

    def prepare_one_of_many(self, client: "_native.Client", native: "Native") -> "Native":
        """Calls the `request` hooks for one of many requests: an error of a hook is its defect."""
        if not self._hooks.request:
            return native
        try:
            return run(self.prepare(client, NativeRequest(native) if isinstance(native, str) else native))
        except Exception as error:  # noqa: BLE001 - only this one of many requests fails
            url = native if isinstance(native, str) else native.url
            return NativeRequest(url, defect=f"hooks: {type(error).__name__}: {error}")

    def attempts(self, attempts: "Iterable[_native.NativeAttempt]") -> Calls[None]:
        """Logs attempts that have ended, and calls the `attempt` hooks."""
        for native in attempts:
            attempt = attempt_of(native, self._request, self.extensions)
            self._attempts = attempt.number
            if self._debug_logger is not None:
                log_attempt(self._debug_logger, attempt, attempt.request.method, attempt.request.url)
            for hook in self._hooks.attempt:
                yield hook(attempt)

    def response(self, response: Response) -> Calls[None]:
        """Logs the response, and calls the `response` hooks."""
        if (logger := enabled_logger(INFO)) is not None:
            log_request(
                logger,
                Request.of(self._request).method,
                response.history[0].url if response.history else response.url,
                result=f"{response.status_code} {response.reason_phrase}".rstrip(),
                status=response.status_code,
                kind=None,
                elapsed_s=self._elapsed_s,
                attempts=response.attempts,
            )
        if self._hooks.response:
            response.request.extensions = self.extensions
        for hook in self._hooks.response:
            yield hook(response)

    def error(self, error: RequestError) -> Calls[None]:
        """Logs the error, and calls the `error` hooks."""
        if (logger := enabled_logger(INFO)) is not None:
            log_request(
                logger,
                Request.of(self._request).method,
                error.url,
                result=f"{error.kind}: {str(error).removeprefix(f'{shown(error.url)}: ')}",
                status=None,
                kind=error.kind,
                elapsed_s=self._elapsed_s,
                attempts=error.attempts,
            )
        if self._hooks.error:
            if error.request is None:
                error._request = self._prepared  # noqa: SLF001 - the one that the hooks have seen
            if error.request is not None:
                error.request.extensions = self.extensions
        for hook in self._hooks.error:
            yield hook(error)

    def _error_of(self, error: BaseException) -> RequestError:
        """Returns the error of the request for what has ended its call."""
        if isinstance(error, RequestError):
            return error
        if self._prepared is None and self._sent is not None:
            fields = prepared_fields(*self._sent)
            self._prepared = None if fields is None else prepared_of(fields, self._request)
        url = Request.of(self._request).url if self._prepared is None else without_user(self._prepared.url)
        cancelled = RequestCancelled(
            f"the call was ended by {type(error).__name__}", url=str(url), attempts=self._attempts
        )
        cancelled.__cause__ = error
        return cancelled


def _changed(native: NativeRequest, before: PreparedRequest, after: PreparedRequest) -> NativeRequest:
    """Returns a request with what hooks have changed."""
    if not isinstance(after.url, str):
        raise TypeError(f"a hook must leave a url in text, not {kind_of(after.url)}")
    if not isinstance(after.content, bytes | None):
        raise TypeError(f"a hook must leave content in bytes, not {kind_of(after.content)}")
    given = after.headers
    headers = list(given.multi_items() if isinstance(given, RequestHeaders) else items_of("headers", given))
    old, new = _by_name(before.headers.multi_items()), _by_name(headers)  # type: ignore[attr-defined]
    names = {name for name in {*old, *new} if old.get(name) != new.get(name)}
    if names:
        set_headers = (encoded(name, value) for name, value in headers if name.lower() in names)
        native = native._replace(
            headers=[*_without(native.headers, names), *set_headers],
            credentials=_without(native.credentials, names),
            without_headers=[
                *(name for name in native.without_headers if name.lower() not in names),
                *(name for name in names if name not in new),
            ],
        )
    if after.content != before.content:
        native = native._replace(body=after.content)
    if after.url != before.url:
        native = native._replace(url=after.url)
    return native._replace(method=method_of(after.method))


def _by_name(headers: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for name, value in headers:
        named.setdefault(name.lower(), []).append(value)
    return named


def _without(headers: Iterable[tuple[str, bytes]], names: set[str]) -> list[tuple[str, bytes]]:
    return [header for header in headers if header[0].lower() not in names]
