"""The errors of one request: a class for each error kind of the engine.

HeadgateError
  RequestError                              what a call of a client raises about its request
    StatusError             (RuntimeError)  `raise_for_status`: the status is not 2xx
    InvalidRequest          (ValueError)    the request can't be sent: its URL or an argument is invalid
    DnsError                (ConnectionError)  the host has no address
    ConnectError            (ConnectionError)  no address of the host accepted a connection
    TlsError                (ConnectionError)  the handshake failed
    RequestTimeout          (TimeoutError)  a timeout of the request has passed
      ConnectTimeout                        no connection in time
      ReadTimeout                           the attempt had no complete response in time
      TotalTimeout                          no response in time, over all attempts and all that the call waited for
      PoolTimeout                           no slot in time, because of `concurrency` or a limit of the host
    ConnectionClosed        (ConnectionError)  the server closed the connection before the response was complete
    ProtocolError           (ConnectionError)  the server sent something other than HTTP
    BodyTooLarge            (ValueError)    the body is longer than `max_body_size`
    DecodeError             (ValueError)    the body does not have its content-encoding
    HostDown                (ConnectionError)  the host did not respond for too long
    ProxyError              (ConnectionError)  the proxy refused, or could not be reached
    TooManyRedirects        (RuntimeError)  more redirects than are followed
      RedirectLoop                          a redirect led back to a request that was made before
    BlockedByRobots         (PermissionError)  the host's robots.txt disallows it
    BlockedByNetworkPolicy  (PermissionError)  the network policy forbids the address
    CredentialsError        (PermissionError)  there is no token for the request, or its origin refuses the credentials
    UnexpectedResponse      (ValueError)    the response lacks a required value
    ChecksumMismatch        (ValueError)    the body does not have its checksum (jobs only)
    DuplicateName           (FileExistsError)  the body's file existed before (jobs only)
    RequestCancelled        (RuntimeError)  the request was cancelled before it had a response
"""

from typing import TYPE_CHECKING, Final, NoReturn

from headgate._errors import HeadgateError
from headgate._foreign import no_attribute

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from headgate.client._prepared_request import PreparedRequest

CLASS_OF: Final[dict[str, type["RequestError"]]] = {}
"""Each class by the engine's name of its error kind."""


class RequestError(HeadgateError):
    """A call of a client failed: the base of all errors about its request, from a wrong argument to a status.

    >>> try:
    ...     client.get("http://127.0.0.1:1/")
    ... except headgate.RequestError as error:
    ...     print(error.kind, error.url, error.attempts, error.request.headers["host"])
    connect http://127.0.0.1:1/ 1 127.0.0.1:1

    Attributes:
        kind: The error kind, as in the column `error` of a job's results; of a `StatusError`, `status:404` or the like.
            Empty in a base of several kinds.
        url: The URL of the request; empty if it has none.
        attempts: The number of attempts; 0 if nothing was sent.
        elapsed_s: The time of the last attempt, in seconds; of a call that ended while it waited, that of the call.
    """

    kind: str = ""

    def __init_subclass__(cls, *, kind: str = "") -> None:
        super().__init_subclass__()
        if kind:
            cls.kind = kind
            CLASS_OF[kind] = cls

    def __init__(
        self,
        message: str = "",
        *,
        url: str = "",
        attempts: int = 0,
        elapsed_s: float = 0.0,
        request: "PreparedRequest | Callable[[], PreparedRequest | None] | None" = None,
    ) -> None:
        super().__init__(message)
        self.url = url
        self.attempts = attempts
        self.elapsed_s = elapsed_s
        self._request = request

    @property
    def request(self) -> "PreparedRequest | None":
        """The request as it was sent, or would have been; `None` if it could not be made."""
        if callable(self._request):
            self._request = self._request()
        return self._request

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_attribute(self, name)

    def __reduce__(self) -> tuple[object, ...]:
        attributes = {name: getattr(self, name) for name in ("url", "attempts", "elapsed_s", "request")}
        return _restore, (type(self), str(self), attributes)


class InvalidRequest(RequestError, ValueError, kind="invalid_request"):  # noqa: N818 - what happened, in words
    """The request is invalid, because of its URL or an argument of the call. Nothing was sent, or not all of its body.

    >>> client.get("ftp://host/")
    Traceback (most recent call last):
    headgate.InvalidRequest: ftp://host/: only URLs of http and https are supported (not ftp)
    """


class DnsError(RequestError, ConnectionError, kind="dns"):
    """The hostname has no address, or no DNS server responded in time.

    >>> headgate.DnsError.kind, issubclass(headgate.DnsError, ConnectionError)
    ('dns', True)
    """


class ConnectError(RequestError, ConnectionError, kind="connect"):
    """No TCP connection could be made to any address of the host.

    >>> client.get("http://127.0.0.1:1/")
    Traceback (most recent call last):
    headgate.ConnectError: http://127.0.0.1:1/: connection refused (127.0.0.1:1)
    """


class TlsError(RequestError, ConnectionError, kind="tls"):
    """The TLS handshake failed.

    >>> client.get("https://127.0.0.1:8080/")  # which speaks no TLS
    Traceback (most recent call last):
    headgate.TlsError: https://127.0.0.1:8080/: ...
    """


class RequestTimeout(RequestError, TimeoutError):  # noqa: N818 - as above
    """A timeout of the request has passed: the base of all timeouts.

    >>> try:
    ...     client.get("/delay/3600", timeout=0.1)
    ... except headgate.RequestTimeout as error:
    ...     print(type(error).__name__, isinstance(error, TimeoutError))
    ReadTimeout True
    """


class ConnectTimeout(RequestTimeout, kind="connect_timeout"):
    """No connection was made in time (`connect_timeout`); nothing was sent.

    >>> headgate.ConnectTimeout.kind, issubclass(headgate.ConnectTimeout, headgate.RequestTimeout)
    ('connect_timeout', True)
    """


class ReadTimeout(RequestTimeout, kind="timeout"):
    """The attempt had no complete response in time (`timeout`, `first_byte_timeout`, `idle_timeout`).

    >>> client.get("/delay/3600", timeout=0.1)
    Traceback (most recent call last):
    headgate.ReadTimeout: http://127.0.0.1:8080/delay/3600: ...
    """


class TotalTimeout(RequestTimeout, kind="total_timeout"):
    """There was no response in time (`total_timeout`), over all attempts and everything that the call waited for.

    >>> headgate.TotalTimeout.kind, issubclass(headgate.TotalTimeout, headgate.RequestTimeout)
    ('total_timeout', True)
    """


class PoolTimeout(RequestTimeout, kind="pool_timeout"):
    """The call had no slot in time (`pool_timeout`), or never will, as its thread or task holds all of them.

    >>> with headgate.Client(concurrency=1, base_url="http://127.0.0.1:8080") as client:
    ...     with client.stream("GET", "/bytes/1000") as response:
    ...         client.get("/hello")
    Traceback (most recent call last):
    headgate.PoolTimeout: /hello: this thread has 1 stream open, and the client makes 1 request at a time: ...
    """


class ConnectionClosed(RequestError, ConnectionError, kind="connection_closed"):  # noqa: N818 - as above
    """The server closed or reset the connection before the response was complete.

    >>> client.get("/fault/reset-mid-body")
    Traceback (most recent call last):
    headgate.ConnectionClosed: http://127.0.0.1:8080/fault/reset-mid-body: ...
    """


class ProtocolError(RequestError, ConnectionError, kind="protocol"):
    """The server sent something other than HTTP, or broke its framing rules.

    >>> client.get("/fault/garbage")
    Traceback (most recent call last):
    headgate.ProtocolError: http://127.0.0.1:8080/fault/garbage: ...
    """


class BodyTooLarge(RequestError, ValueError, kind="body_too_large"):  # noqa: N818 - as above
    """The body is longer than `max_body_size`.

    >>> headgate.Client(max_body_size=1000).get("http://127.0.0.1:8080/bytes/1001")
    Traceback (most recent call last):
    headgate.BodyTooLarge: http://127.0.0.1:8080/bytes/1001: ...
    """


class DecodeError(RequestError, ValueError, kind="decode"):
    """The body can't be decoded with its content-encoding.

    >>> client.get("/fault/corrupt-gzip")
    Traceback (most recent call last):
    headgate.DecodeError: http://127.0.0.1:8080/fault/corrupt-gzip: ...
    """


class HostDown(RequestError, ConnectionError, kind="host_down"):  # noqa: N818 - as above
    """The host did not respond for too long, and requests to it were stopped.

    >>> headgate.HostDown.kind, issubclass(headgate.HostDown, ConnectionError)
    ('host_down', True)
    """


class ProxyError(RequestError, ConnectionError, kind="proxy"):
    """The proxy could not be reached, or refused to connect to the host.

    >>> headgate.Client(proxy="http://127.0.0.1:1", retries=0).get("http://127.0.0.1:8080/hello")
    Traceback (most recent call last):
    headgate.ProxyError: http://127.0.0.1:8080/hello: ...
    """


class TooManyRedirects(RequestError, RuntimeError, kind="too_many_redirects"):  # noqa: N818 - as above
    """There were more redirects than the client follows.

    >>> client.get("/redirect/11")
    Traceback (most recent call last):
    headgate.TooManyRedirects: http://127.0.0.1:8080/redirect/...
    """


class RedirectLoop(TooManyRedirects, kind="redirect_loop"):
    """A redirect led back to a request that was made before.

    >>> client.get("/fault/redirect-loop")
    Traceback (most recent call last):
    headgate.RedirectLoop: http://127.0.0.1:8080/fault/redirect-loop: ...
    """


class BlockedByRobots(RequestError, PermissionError, kind="blocked_by_robots"):  # noqa: N818 - as above
    """The host's robots.txt disallows the URL, and nothing was sent.

    >>> with headgate.Client(base_url="http://127.0.0.1:8080", obey_robots=True) as client:
    ...     client.get("/deny")
    Traceback (most recent call last):
    headgate.BlockedByRobots: http://127.0.0.1:8080/deny: ...
    """


class CredentialsError(RequestError, PermissionError, kind="credentials"):
    """The token could not be fetched, and nothing was sent; in a job, also: the origin refuses the credentials.

    >>> class Sealed:
    ...     def token(self) -> str:
    ...         raise OSError("the vault is sealed")
    >>> with headgate.Client(base_url="http://127.0.0.1:8080", auth=Sealed()) as client:
    ...     client.get("/hello")
    Traceback (most recent call last):
    headgate.CredentialsError: http://127.0.0.1:8080/hello: ...
    """


class BlockedByNetworkPolicy(RequestError, PermissionError, kind="blocked_by_network_policy"):  # noqa: N818 - as above
    """The network policy forbids the address of the host, and nothing was sent there.

    >>> with headgate.Client(network="public") as client:
    ...     client.get("http://127.0.0.1:8080/hello")
    Traceback (most recent call last):
    headgate.BlockedByNetworkPolicy: http://127.0.0.1:8080/hello: ...
    """


class UnexpectedResponse(RequestError, ValueError, kind="unexpected_response"):  # noqa: N818 - as above
    """The response lacks a value that is required.

    >>> headgate.UnexpectedResponse.kind, issubclass(headgate.UnexpectedResponse, ValueError)
    ('unexpected_response', True)
    """


class ChecksumMismatch(RequestError, ValueError, kind="checksum_mismatch"):  # noqa: N818 - as above
    """The body does not have its checksum. Only jobs compare them.

    >>> headgate.ChecksumMismatch.kind, issubclass(headgate.ChecksumMismatch, ValueError)
    ('checksum_mismatch', True)
    """


class DuplicateName(RequestError, FileExistsError, kind="duplicate_name"):  # noqa: N818 - as above
    """The file of the body existed before. Only jobs save bodies.

    >>> headgate.DuplicateName.kind, issubclass(headgate.DuplicateName, FileExistsError)
    ('duplicate_name', True)
    """


class RequestCancelled(RequestError, RuntimeError, kind="cancelled"):  # noqa: N818 - as above
    """The request was cancelled before it had a response.

    >>> headgate.RequestCancelled.kind, issubclass(headgate.RequestCancelled, RuntimeError)
    ('cancelled', True)
    """


def _restore(kind: type[RequestError], message: str, attributes: "dict[str, Any]") -> RequestError:
    return kind(message, **attributes)
