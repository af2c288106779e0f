"""A request of a client for threads."""

from headgate.client._content import Source
from headgate.client._engine import Engine
from headgate.client._log import is_observed
from headgate.client._native_requests import native_of
from headgate.client._open_streams import OpenStreams
from headgate.client._request import Request, check_is_request
from headgate.client._response import Response, response_of


def send(engine: Engine, streams: OpenStreams, request: Request) -> Response:
    """Sends a request, and waits for its response.

    Raises:
        RequestError: The request failed, or an argument has an invalid value.
        TypeError: It is no `Request`.
        RuntimeError: The client is closed.
    """
    check_is_request(request)
    if is_observed(engine.options):
        from headgate.client._observed import send_observed  # noqa: PLC0415 - most clients are not observed

        return send_observed(engine, streams, request)
    streams.check("thread", request)
    prepared = native_of(request, engine.options)
    if isinstance(prepared.body, Source):
        from headgate.client._feeder import send_in_steps  # noqa: PLC0415 - most requests have no such body

        with engine.request_for_app(prepared) as of_app:
            outcome = send_in_steps(engine, of_app, prepared.body)
        engine.raise_of_app(outcome)
        return response_of(request, outcome)
    native = engine.call(prepared)
    return response_of(request, native if native is not None else engine.raise_closed())
