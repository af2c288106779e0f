"""What can go wrong with one request: a class for each kind of error of the engine.

HeadgateError
  StatusError        (RuntimeError)      `raise_for_status`: the answer has a status that is none of success
  RequestError                           there is no usable answer
    InvalidRequest    (ValueError)       it can't be sent
    ResolveError      (ConnectionError)  the host has no address
    ConnectError      (ConnectionError)  no address of the host answers
    TlsError          (ConnectionError)  the handshake failed
    ConnectTimeout    (TimeoutError)     no connection in time
    RequestTimeout    (TimeoutError)     no complete answer in time
    ConnectionClosed  (ConnectionError)  the server closed the connection before the answer was complete
    ProtocolError     (ConnectionError)  what came is not HTTP
    BodyTooLarge      (ValueError)       the body is longer than `max_body_bytes`
    DecodeError       (ValueError)       the body is not what its content-encoding says
    HostDown          (ConnectionError)  the host gave no answer for too long
    ProxyError        (ConnectionError)  the proxy refused, or is not there
    TooManyRedirects  (RuntimeError)     more than are followed, or a circle
    BlockedByRobots   (PermissionError)  the host's robots.txt asks for it
    UnexpectedAnswer  (ValueError)       the answer does not have what it must have
    ChecksumMismatch  (ValueError)       the body does not have its checksum (jobs only)
    DuplicateName     (FileExistsError)  the body's file was there before (jobs only)
    RequestCancelled  (RuntimeError)     it was cancelled before it had an answer
"""

from typing import ClassVar, Final

from headgate._errors import HeadgateError


class RequestError(HeadgateError):
    """There is no usable answer to a request.

    Attributes:
        kind: Its name, as in the column `error` of a job's results.
        url: What was asked for.
        attempts: How often it was tried.
        elapsed_s: How long the last attempt took.
    """

    kind: ClassVar[str] = ""

    def __init__(self, message: str, *, url: str = "", attempts: int = 0, elapsed_s: float = 0.0) -> None:
        super().__init__(message)
        self.url = url
        self.attempts = attempts
        self.elapsed_s = elapsed_s

    def __reduce__(self) -> tuple[object, ...]:
        return _again, (type(self), str(self), self.url, self.attempts, self.elapsed_s)


class InvalidRequest(RequestError, ValueError):  # noqa: N818 - what happened, in words
    """It can't be sent: nothing was."""

    kind = "invalid_request"


class ResolveError(RequestError, ConnectionError):
    """The name of the host has no address, or no name server answered in time."""

    kind = "resolve"


class ConnectError(RequestError, ConnectionError):
    """No TCP connection could be made to any address of the host."""

    kind = "connect"


class TlsError(RequestError, ConnectionError):
    """The TLS handshake failed."""

    kind = "tls"


class ConnectTimeout(RequestError, TimeoutError):  # noqa: N818 - as above
    """No connection was made in time; nothing was sent."""

    kind = "connect_timeout"


class RequestTimeout(RequestError, TimeoutError):  # noqa: N818 - as above
    """No complete answer came in time."""

    kind = "timeout"


class ConnectionClosed(RequestError, ConnectionError):  # noqa: N818 - as above
    """The server closed or reset the connection before the answer was complete."""

    kind = "closed"


class ProtocolError(RequestError, ConnectionError):
    """What the server sent is not HTTP, or breaks its framing rules."""

    kind = "protocol"


class BodyTooLarge(RequestError, ValueError):  # noqa: N818 - as above
    """The body is longer than `max_body_bytes`."""

    kind = "body_too_large"


class DecodeError(RequestError, ValueError):
    """The body is not what its content-encoding says."""

    kind = "decode"


class HostDown(RequestError, ConnectionError):  # noqa: N818 - as above
    """The host gave no answer for too long, and was not asked any more."""

    kind = "host_down"


class ProxyError(RequestError, ConnectionError):
    """The proxy could not be reached, or refused to connect to the host."""

    kind = "proxy"


class TooManyRedirects(RequestError, RuntimeError):  # noqa: N818 - as above
    """There were more redirects than are followed, or they led in a circle."""

    kind = "too_many_redirects"


class BlockedByRobots(RequestError, PermissionError):  # noqa: N818 - as above
    """The host's robots.txt asks for it not to be fetched: nothing was sent."""

    kind = "blocked"


class UnexpectedAnswer(RequestError, ValueError):  # noqa: N818 - as above
    """The answer does not have what it must have."""

    kind = "unexpected_answer"


class ChecksumMismatch(RequestError, ValueError):  # noqa: N818 - as above
    """The body does not have its checksum. Only jobs compare them."""

    kind = "checksum_mismatch"


class DuplicateName(RequestError, FileExistsError):  # noqa: N818 - as above
    """The file of the body was there before. Only jobs save bodies."""

    kind = "duplicate_name"


class RequestCancelled(RequestError, RuntimeError):  # noqa: N818 - as above
    """It was cancelled before it had an answer."""

    kind = "cancelled"


CLASS_OF: Final[dict[str, type[RequestError]]] = {
    error.kind: error
    for error in (
        *(InvalidRequest, ResolveError, ConnectError, TlsError, ConnectTimeout, RequestTimeout, ConnectionClosed),
        *(ProtocolError, BodyTooLarge, DecodeError, HostDown, ProxyError, TooManyRedirects, BlockedByRobots),
        *(UnexpectedAnswer, ChecksumMismatch, DuplicateName, RequestCancelled),
    )
}
"""By the engine's name of the kind."""


def _again(kind: type[RequestError], message: str, url: str, attempts: int, elapsed_s: float) -> RequestError:
    return kind(message, url=url, attempts=attempts, elapsed_s=elapsed_s)
