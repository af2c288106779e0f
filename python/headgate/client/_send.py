"""A request of a client for threads."""

from headgate.client._engine import Engine
from headgate.client._request import Request, check_is_request, native_of
from headgate.client._response import Response, response_of


def send(engine: Engine, base_url: str, request: Request) -> Response:
    """Sends a request, and waits for its response.

    Raises:
        RequestError: The request failed, or an argument has an invalid value.
        TypeError: It is no `Request`.
        RuntimeError: The client is closed.
    """
    check_is_request(request)
    native = engine.native.call(native_of(request, base_url))
    return response_of(request, native if native is not None else engine.raise_closed())
