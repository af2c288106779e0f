"""The local server to rehearse against, in this process."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from os import PathLike

    from headgate._native import Server

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_STATUS: Final = 200
DEFAULT_SEED: Final = 0
DEFAULT_API_BURST_S: Final = 0.05
DEFAULT_HTTP2_STREAMS: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiLimits:
    """What an API lets through, and answers 429 beyond; `None` is no limit.

    Attributes:
        requests_per_s: Requests a second.
        tokens_per_s: Tokens a second, which a request says in `X-Tokens` or as `tokens` in its body of JSON; else it
            costs the bytes of its body.
        concurrency: Requests at once.
        burst_s: How many seconds' worth may come at once after a pause; at least one request.
        fail_first: The share of requests, from 0 to 1, whose first try is answered 500. They are told apart by
            `Idempotency-Key`, or by their URL.
        per_host: The limits hold for each value of `Host`, not for all together.
    """

    requests_per_s: float | None = None
    tokens_per_s: float | None = None
    concurrency: int | None = None
    burst_s: float = DEFAULT_API_BURST_S
    fail_first: float = 0.0
    per_host: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """What the server is asked to be.

    Attributes:
        host: The address to listen at.
        port: 0 takes a free one.
        threads: Worker threads; `None`: one for each core.
        delay_s: Least and longest time before an answer, drawn evenly.
        delay_whole: Draw whole seconds.
        body_bytes: Length of the body; `None` says hello.
        status: The status of each answer.
        seed: Of the delays.
        capacity: Most requests that are being answered at once; others wait in line.
        refuse: Answer 503 beyond the capacity.
        api: What is refused as an API does.
        log: Where each request leaves a line.
        tls: The certificate and its key, in PEM.
        tls_made: Where to write the certificate that is made for this machine; excludes `tls`.
        http2: HTTP/2 is spoken, too: by ALPN with TLS, by prior knowledge without it.
        http2_streams: Streams at once on a connection of HTTP/2.
        robots: The path of this server whose answer `/robots.txt` gets.
    """

    host: str = DEFAULT_HOST
    port: int = 0
    threads: int | None = None
    delay_s: tuple[float, float] = (0.0, 0.0)
    delay_whole: bool = False
    body_bytes: int | None = None
    status: int = DEFAULT_STATUS
    seed: int = DEFAULT_SEED
    capacity: int | None = None
    refuse: bool = False
    api: ApiLimits | None = None
    log: "str | PathLike[str] | None" = None
    tls: "tuple[str, str] | None" = None
    tls_made: str | None = None
    http2: bool = False
    http2_streams: int = DEFAULT_HTTP2_STREAMS
    robots: str | None = None

    @property
    def scheme(self) -> str:
        """Of the server's URLs."""
        return "http" if self.tls is None and self.tls_made is None else "https"


def start_server(options: ServerOptions | None = None) -> "Server":
    """Starts the server on threads of its own.

    Returns:
        The running server; it knows its `address` and stops at `stop()`.

    Raises:
        UsageError: It can't be: the port is taken, or an option makes no sense.
    """
    from headgate._native import Server  # noqa: PLC0415 - the defaults above are needed where the engine is not

    return Server(options or ServerOptions())
