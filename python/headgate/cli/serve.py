"""`headgate serve`: runs the local test server until a signal."""

import queue
import signal
from collections.abc import Sequence
from typing import Final

from headgate._checks import whole
from headgate.cli._parser import Parser
from headgate.cli._values import Values
from headgate.jobs import _server
from headgate.jobs._option_entry import STANDARD_STREAM

MAX_PORT: Final = 65535
DEFAULT_PORT: Final = 8080

# The limits of the server.
MAX_THREADS: Final = 1024
MAX_BODY_SIZE: Final = 1024**3
MAX_CAPACITY: Final = 1_000_000
MAX_STREAMS: Final = 2**31 - 1

_API_LIMITS: Final = (
    "api_rate",
    "api_tokens",
    "api_concurrency",
    "api_fail_first",
    "api_html_first",
    "api_cut_first",
    "api_bearer_ttl",
)

_EXAMPLES: Final = """\
examples:
  headgate serve --port 8080
  headgate serve --port 0 --delay 0..3s
  headgate serve --port 8080 --body-size 16KiB --status 503
  headgate serve --port 8080 --delay 50ms --capacity 8
  headgate serve --port 8443 --self-signed cert.pem --http2
  headgate serve --port 8080 --api-rate 500/s --api-concurrency 20 --api-tokens 1000000/m --api-fail-first 5%

the page / lists the faults by path; /stats has the counters of the server"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, and serves until SIGINT or SIGTERM."""
    values = parser().read(arguments)
    if values is None:
        return 0
    host = values.text("host")
    port = values.whole("port", DEFAULT_PORT, whole(0, MAX_PORT))
    threads = values.whole_or_none("threads", whole(1, MAX_THREADS))
    status = values.whole("status", _server.DEFAULT_STATUS, whole(200, 599))  # final: RFC 9110 section 15
    seed = values.whole("seed", _server.DEFAULT_SEED, whole(0, 2**64 - 1))
    delay_s, whole_delay_s = values.span("delay"), values.span("delay_whole")
    if delay_s is not None and whole_delay_s is not None:
        values.wrong("delay_whole", "excludes --delay: give one of them")
    if whole_delay_s is not None and not all(bound.is_integer() for bound in whole_delay_s):
        values.wrong("delay_whole", "must be whole seconds, as 0..3s")
    body_size = values.size_or_none("body_size", whole(0, MAX_BODY_SIZE))
    capacity = values.whole_or_none("capacity", whole(1, MAX_CAPACITY))
    if values.switch("refuse") and capacity is None and not values.is_wrong("capacity"):
        values.wrong("refuse", "needs --capacity")
    api = api_limits(values)
    log = _file_to_write(values, "log")
    self_signed = _file_to_write(values, "self_signed")
    tls = _tls(values)
    if values.is_given("http2_streams") and not values.switch("http2"):
        values.wrong("http2_streams", "needs --http2")
    http2_streams = values.whole("http2_streams", _server.DEFAULT_HTTP2_STREAMS, whole(1, MAX_STREAMS))
    values.check()

    # From here on, a signal raises no exception. The `put` of this queue is reentrant. The `set` of a
    # `threading.Event` is not: it deadlocks if the handler runs while this thread holds the event's lock in `wait`.
    stopped = queue.SimpleQueue[int]()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _frame: stopped.put(number))
    options = _server.ServerOptions(
        host=_server.DEFAULT_HOST if host is None else host,
        port=port,
        threads=threads,
        delay_s=whole_delay_s or delay_s or (0.0, 0.0),
        delay_whole=whole_delay_s is not None,
        body_bytes=body_size,
        status=status,
        seed=seed,
        capacity=capacity,
        refuse=values.switch("refuse"),
        api=api,
        log=log,
        tls=tls,
        self_signed=self_signed,
        http2=values.switch("http2"),
        http2_streams=http2_streams,
        robots=values.text("robots"),
    )
    server = _server.start_server(options)
    try:
        print(f"listening on {options.scheme}://{server.address}", flush=True)
        stopped.get()
    finally:
        server.stop()
    return 0


def _file_to_write(values: Values, dest: str) -> str | None:
    """Returns the path of a file, and adds a mistake if it stands for standard output."""
    file = values.text(dest)
    if file == STANDARD_STREAM:
        values.wrong(dest, f"must be a file, not {file!r}: standard output has the address of the server")
    return file


def _tls(values: Values) -> tuple[str, str] | None:
    cert, key = values.text("cert"), values.text("key")
    for dest, other, missing in (("cert", "--key", key is None), ("key", "--cert", cert is None)):
        if values.is_given(dest) and missing:
            values.wrong(dest, f"needs {other}")
        if values.is_given(dest) and values.is_given("self_signed"):
            values.wrong(dest, "excludes --self-signed")
    return None if cert is None or key is None else (cert, key)


def api_limits(values: Values) -> _server.ApiLimits | None:
    """Returns the limits of the API, and adds mistakes; `None` if there are none."""
    burst = values.whole_or_none("api_burst", whole(1))
    requests_per_s, tokens_per_s = values.per_second_or_none("api_rate"), values.per_second_or_none("api_tokens")
    rate = requests_per_s or tokens_per_s
    if burst is not None and rate is None and not (values.is_wrong("api_rate") or values.is_wrong("api_tokens")):
        values.wrong("api_burst", "needs a rate, such as --api-rate 500/s")
    if not any(values.is_given(dest) for dest in _API_LIMITS):
        if values.switch("api_per_host"):
            values.wrong("api_per_host", "needs a limit, such as --api-rate 500/s")
        return None
    concurrency = values.whole_or_none("api_concurrency", whole(1))
    shares = values.share("api_fail_first"), values.share("api_html_first"), values.share("api_cut_first")
    if sum(shares) > 1:
        values.wrong("api_fail_first", "must be at most 100 %, with --api-html-first and --api-cut-first")
    return _server.ApiLimits(
        requests_per_s=requests_per_s,
        tokens_per_s=tokens_per_s,
        concurrency=concurrency,
        burst_s=burst / rate if burst and rate else _server.DEFAULT_API_BURST_S,
        fail_first=shares[0],
        html_first=shares[1],
        cut_first=shares[2],
        bearer_ttl_s=values.seconds_or_none("api_bearer_ttl"),
        per_host=values.switch("api_per_host"),
    )


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "serve",
        usage="[flags]",
        description="Runs a local server that responds with a short text, or with the fault that the path names.",
        examples=_EXAMPLES,
    )
    made.group("where")
    made.value("host", "--host", metavar="ADDRESS", text=f"address to listen on (default: {_server.DEFAULT_HOST})")
    made.value("port", "--port", metavar="N", text=f"port to listen on; 0 takes a free one (default: {DEFAULT_PORT})")
    made.value("threads", "--threads", metavar="N", text="worker threads (default: one for each core)")
    made.group("responses")
    made.value("delay", "--delay", metavar="TIME", text="wait before each response: 1.5s, or evenly between, 0..3s")
    made.value("delay_whole", "--delay-whole", metavar="TIME", text="the same, in whole seconds only")
    made.value("body_size", "--body-size", metavar="SIZE", text="size of each body (default: a greeting)")
    made.value("status", "--status", metavar="N", text=f"status of each response (default: {_server.DEFAULT_STATUS})")
    made.value("seed", "--seed", metavar="N", text=f"seed of the random delays (default: {_server.DEFAULT_SEED})")
    made.value(
        "robots",
        "--robots",
        metavar="PATH",
        text="respond to /robots.txt as this path of the server does: /status/503, /fault/refuse, /base64/...",
    )
    made.group("protocol")
    made.switch("http2", "--http2", text="speak HTTP/2, too: with TLS by ALPN, without it by prior knowledge")
    made.value(
        "http2_streams",
        "--http2-streams",
        metavar="N",
        text=f"streams at once on a connection of HTTP/2 (default: {_server.DEFAULT_HTTP2_STREAMS})",
    )
    made.value("cert", "--cert", metavar="FILE", text="serve with TLS, with this certificate in PEM")
    made.value("key", "--key", metavar="FILE", text="and this key in PEM")
    made.value(
        "self_signed",
        "--self-signed",
        metavar="FILE",
        text="serve with TLS, with a certificate that is made now for localhost, and written to this file",
    )
    made.group("capacity")
    made.value(
        "capacity", "--capacity", metavar="N", text="serve N requests at once, others wait; /capacity/M changes it"
    )
    made.switch("refuse", "--refuse", text="respond with 503 beyond the capacity")
    made.group("limits of an API")
    made.value(
        "api_rate",
        "--api-rate",
        metavar="RATE",
        text="respond with 429 and Retry-After beyond so many requests in a time: 500/s, 5/2s",
    )
    made.value("api_concurrency", "--api-concurrency", metavar="N", text="beyond so many at once")
    made.value(
        "api_tokens",
        "--api-tokens",
        metavar="RATE",
        text="beyond so many tokens, of X-Tokens or `tokens` in a JSON body, in a time: 1000000/m",
    )
    made.value(
        "api_burst",
        "--api-burst",
        metavar="N",
        text="so many requests at once after a pause, or tokens without --api-rate",
        default=f"as many as the rate allows in {_server.DEFAULT_API_BURST_S:g} s",
    )
    made.switch("api_per_host", "--api-per-host", text="limit each host (header Host) for itself")
    made.value(
        "api_fail_first",
        "--api-fail-first",
        metavar="PERCENT",
        text="respond with 500 to the first attempt of so many, recognised by Idempotency-Key or URL",
    )
    made.value("api_html_first", "--api-html-first", metavar="PERCENT", text="with an HTML page and status 200")
    made.value("api_cut_first", "--api-cut-first", metavar="PERCENT", text="with a part of a body, and close")
    made.value(
        "api_bearer_ttl",
        "--api-bearer-ttl",
        metavar="TIME",
        text="respond with 401 without a bearer token of /token that is no older: 20s",
    )
    made.group("log")
    made.value(
        "log", "--log", metavar="FILE", text="write time (µs), status, host and path of each request, with tabs between"
    )
    return made
