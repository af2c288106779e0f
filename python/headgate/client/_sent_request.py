"""Requests as they were sent: they are made when they are looked at."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from headgate._native import Client, NativeAttempt, NativeOutcome, UploadStream
from headgate.client._content import Source
from headgate.client._engine import Engine
from headgate.client._headers import RequestHeaders
from headgate.client._prepared_request import PreparedRequest
from headgate.client._request import NativeRequest, Request, RequestLike
from headgate.serving._asgi_app import CONTEXT

SentFields = tuple[str, str, list[tuple[str, str, bool]], bytes | None]
"""A method, a URL, headers with whether they are credentials, and a body."""


def sent_request(
    native: NativeOutcome | NativeAttempt | SimpleNamespace, request: RequestLike
) -> PreparedRequest | None:
    """Returns the request as it was sent, or `None` if it could not be made. `request` is what the caller gave."""
    sent = native.sent_request
    return None if sent is None else prepared_of(sent, request)


def prepared_of(sent: SentFields, request: RequestLike) -> PreparedRequest:
    """Returns a request of the engine. `request` is what the caller gave."""
    method, url, fields, content = sent
    secret = {name.lower() for name, _, is_secret in fields if is_secret}
    headers = RequestHeaders([(name, value) for name, value, _ in fields if name.lower() != CONTEXT], secret)
    return PreparedRequest(method, url, headers, content, tag_of(request))


def unsent_request(engine: Engine, request: Request) -> PreparedRequest | None:
    """Returns a request as it would be sent, before an `auth` function changes it; `None` if it can't be made."""
    options = engine.options
    try:
        fields = prepared_fields(engine.native, request.native(options.base_url, options.params))
    except (TypeError, ValueError, OSError):
        return None
    return None if fields is None else prepared_of(fields, request)


def prepared_fields(client: Client, native: NativeRequest) -> SentFields | None:
    """Returns a request as the engine would send it, or `None` if it can't be sent."""
    body = native.body
    if isinstance(body, Source):
        native = native._replace(body=UploadStream(body.length, body.is_rewindable))
    return client.prepare(native)


def tag_of(request: RequestLike) -> Any:  # noqa: ANN401 - the caller's
    """Returns the `tag` of a request as the caller gave it."""
    if isinstance(request, Request):
        return request.tag
    return request.get("tag") if isinstance(request, Mapping) else None
