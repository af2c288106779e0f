"""The local test server, in this process."""

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
    """The limits of an API, which responds 429 beyond them; `None` is no limit.

    Attributes:
        requests_per_s: Requests a second.
        tokens_per_s: Tokens a second. A request has them in `X-Tokens` or as `tokens` in its JSON body; otherwise it
            costs the bytes of its body.
        concurrency: Requests at once.
        burst_s: How many seconds' worth may arrive at once after a pause; at least one request.
        fail_first: The share of requests, from 0 to 1, whose first attempt gets a 500. Requests are recognised by
            `Idempotency-Key`, or by their URL.
        html_first: The share whose first attempt gets an HTML page with status 200.
        cut_first: The share whose first attempt gets a part of a body, and then the connection closes.
        bearer_ttl_s: How many seconds a bearer token of `/token` is valid; `None`: no token is needed.
        per_host: Whether the limits hold for each value of `Host` rather than for all together.
    """

    requests_per_s: float | None = None
    tokens_per_s: float | None = None
    concurrency: int | None = None
    burst_s: float = DEFAULT_API_BURST_S
    fail_first: float = 0.0
    html_first: float = 0.0
    cut_first: float = 0.0
    bearer_ttl_s: float | None = None
    per_host: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerOptions:
    """The options of the test server.

    Attributes:
        host: The address to listen at.
        port: The port; 0 means a free one.
        threads: Worker threads; `None`: one for each core.
        delay_s: The shortest and longest time before a response, drawn evenly.
        delay_whole: Whether delays are whole seconds.
        body_bytes: The length of the body; `None`: "Hello, World!".
        status: The status of each response.
        seed: The seed of the delays.
        capacity: The bound of requests that are served at once; further ones are queued.
        refuse: Whether to respond 503 beyond the capacity.
        api: The limits of an API.
        log: The file to which a line is written for each request.
        tls: The certificate and its key, in PEM.
        self_signed: The file to which a new certificate for this machine is written; excludes `tls`.
        http2: Whether the server also speaks HTTP/2: by ALPN with TLS, by prior knowledge without it.
        http2_streams: Streams at once on an HTTP/2 connection.
        robots: The path of this server whose response is that of `/robots.txt`.
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
    self_signed: str | None = None
    http2: bool = False
    http2_streams: int = DEFAULT_HTTP2_STREAMS
    robots: str | None = None

    @property
    def scheme(self) -> str:
        """The scheme of the server's URLs."""
        return "http" if self.tls is None and self.self_signed is None else "https"


def start_server(options: ServerOptions | None = None) -> "Server":
    """Starts the server on separate threads.

    Returns:
        The running server, with its `address` and `stop()`.

    Raises:
        UsageError: The port is in use, or an option is invalid.
    """
    from headgate._native import Server  # noqa: PLC0415 - the defaults above are also needed without the engine

    return Server(options or ServerOptions())
