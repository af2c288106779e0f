"""Requests that a mock passes through to the network."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from headgate import _native
from headgate.client._client_options import OF_CONNECTIONS, ClientOptions
from headgate.client._request import NativeRequest
from headgate.client._stream import StreamReader
from headgate.serving._connection import Connection
from headgate.serving._http1 import LAST_CHUNK, chunk, head_bytes, may_have_body
from headgate.testing._calls import MockRequest

KEPT: Final = (*OF_CONNECTIONS, "connect_timeout", "credentials_for", "dns_server")
"""The options of a client that its requests have, too, if they are passed through."""

MAX_IN_FLIGHT: Final = 1024
"""The bound of requests of a client that are passed through at once."""

# The client that has sent the request to the mock has its own limits, and decodes, redirects and retries.
_OF_REQUESTS: Final = {
    "concurrency": MAX_IN_FLIGHT,
    "decode": False,
    "host_down_after": None,
    "redirects": "none",
    "retries": 0,
    "threads": 1,
    "timeout": 86_400.0,
    "total_timeout": None,
}
_OF_ONE_CONNECTION: Final = frozenset({"connection", "keep-alive", "te", "transfer-encoding", "upgrade"})


class _NetworkOptions(ClientOptions):
    """The options of an engine that uses the network, whether a mock is active or not."""

    @property
    def mock(self) -> object | None:
        return None


class PassThrough:
    """Makes requests over the network. There is an engine for each set of options of connections."""

    def __init__(self) -> None:
        self._engines: dict[int, _native.Client] = {}

    async def serve(
        self, connection: Connection, request: MockRequest, number: int, options: Mapping[str, Any]
    ) -> None:
        """Sends a request with these options, which have this number, and passes on the response as it comes."""
        engine = self._engines.get(number)
        if engine is None:
            of_all = _NetworkOptions(base_url="", params=(), **{**options, **_OF_REQUESTS})
            engine = self._engines[number] = _native.Client(of_all)
        native = _native_request(request)
        stream = engine.start_stream(native, watched=True)
        if stream is None:
            return _fail(connection, ("connection_closed", "the mock has ended", None))
        reader = StreamReader(stream)
        try:
            outcome = await reader.headers(stream, native)
            if outcome.error is not None:
                return _fail(connection, outcome.error)
            headers = [pair for pair in outcome.headers if pair[0].lower() not in _OF_ONE_CONNECTION]
            has_body = may_have_body(request.method, outcome.status or 0)
            is_chunked = has_body and all(name.lower() != "content-length" for name, _ in headers)
            if is_chunked:
                headers.append(("Transfer-Encoding", "chunked"))
            encoded = ((name.encode(), value.encode("utf-8", "surrogateescape")) for name, value in headers)
            await connection.write(head_bytes(outcome.status or 0, encoded))
            stream.start_body(raw=True)
            while piece := await reader.piece():
                await connection.write(chunk(piece) if is_chunked else piece)
            if (error := stream.error) is not None:
                return _fail(connection, error)
            if is_chunked:
                await connection.write(LAST_CHUNK)
        finally:
            reader.close()
        return None

    def close(self) -> None:
        """Closes all connections."""
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()


def _native_request(request: MockRequest) -> NativeRequest:
    headers = list(_sent_on(request))
    return NativeRequest(request.url, request.method, headers, body=request.content or None)


def _sent_on(request: MockRequest) -> Iterator[tuple[str, bytes]]:
    authority = request.url.split("/", 3)[2]
    for name, value in request.headers.multi_items():
        known = name.lower()
        is_ours = known == "content-length" or (known == "host" and value == authority)
        if known not in _OF_ONE_CONNECTION and not is_ours:
            yield name, value.encode()


def _fail(connection: Connection, error: tuple[str, str, str | None]) -> None:
    kind, message, detail = error
    connection.fail(kind, message, detail or "")
