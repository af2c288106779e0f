"""`headgate serve`: runs the local test server until a signal."""

import signal
import threading
from collections.abc import Sequence
from typing import Final

from headgate._checks import whole
from headgate.cli._parser import Parser, Values
from headgate.jobs import _server

MAX_PORT: Final = 65535
DEFAULT_PORT: Final = 8080

# The limits of the server.
MAX_THREADS: Final = 1024
MAX_BODY_BYTES: Final = 1024**3
MAX_CAPACITY: Final = 1_000_000
MAX_STREAMS: Final = 2**31 - 1

_EXAMPLES: Final = """\
examples:
  headgate serve --port 8080
  headgate serve --port 0 --delay 0..3
  headgate serve --port 8080 --body-bytes 16KiB --status 503
  headgate serve --port 8080 --delay 0.05 --capacity 8
  headgate serve --port 8443 --tls-made cert.pem --http2
  headgate serve --port 8080 --api-rate 500/s --api-concurrency 20 --api-tokens 1000000/m --api-fail-first 5%

the page / lists the faults that can be asked for by path; /stats counts what the server saw"""


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
        values.wrong("delay_whole", "must be whole seconds, as 0..3")
    body_bytes = values.size_or_none("body_bytes", whole(0, MAX_BODY_BYTES))
    capacity = values.whole_or_none("capacity", whole(1, MAX_CAPACITY))
    if values.switch("refuse") and capacity is None and not values.is_wrong("capacity"):
        values.wrong("refuse", "needs --capacity")
    api = _api(values)
    log = values.text("log")
    tls = _tls(values)
    if values.is_given("http2_streams") and not values.switch("http2"):
        values.wrong("http2_streams", "needs --http2")
    http2_streams = values.whole("http2_streams", _server.DEFAULT_HTTP2_STREAMS, whole(1, MAX_STREAMS))
    values.check()

    # From here on, a signal sets an event and raises no exception.
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stopped.set())
    options = _server.ServerOptions(
        host=_server.DEFAULT_HOST if host is None else host,
        port=port,
        threads=threads,
        delay_s=whole_delay_s or delay_s or (0.0, 0.0),
        delay_whole=whole_delay_s is not None,
        body_bytes=body_bytes,
        status=status,
        seed=seed,
        capacity=capacity,
        refuse=values.switch("refuse"),
        api=api,
        log=log,
        tls=tls,
        tls_made=values.text("tls_made"),
        http2=values.switch("http2"),
        http2_streams=http2_streams,
        robots=values.text("robots"),
    )
    server = _server.start_server(options)
    try:
        print(f"listening on {options.scheme}://{server.address}", flush=True)
        stopped.wait()
    finally:
        server.stop()
    return 0


def _tls(values: Values) -> tuple[str, str] | None:
    cert, key = values.text("cert"), values.text("key")
    for dest, other, missing in (("cert", "--key", key is None), ("key", "--cert", cert is None)):
        if values.is_given(dest) and missing:
            values.wrong(dest, f"needs {other}")
        if values.is_given(dest) and values.is_given("tls_made"):
            values.wrong(dest, "excludes --tls-made")
    return None if cert is None or key is None else (cert, key)


def _api(values: Values) -> _server.ApiLimits | None:
    given = [dest for dest in ("api_rate", "api_tokens", "api_concurrency", "api_fail_first") if values.is_given(dest)]
    burst_s = values.seconds_or_none("api_burst")
    if burst_s is not None and burst_s < 0:
        values.wrong("api_burst", f"must be at least 0, not {burst_s:g}")
    if not given:
        for dest, is_given in (("api_burst", burst_s is not None), ("api_per_host", values.switch("api_per_host"))):
            if is_given:
                values.wrong(dest, "needs a limit, such as --api-rate 500/s")
        return None
    return _server.ApiLimits(
        requests_per_s=values.per_second_or_none("api_rate"),
        tokens_per_s=values.per_second_or_none("api_tokens"),
        concurrency=values.whole_or_none("api_concurrency", whole(1)),
        burst_s=_server.DEFAULT_API_BURST_S if burst_s is None else burst_s,
        fail_first=values.share("api_fail_first"),
        per_host=values.switch("api_per_host"),
    )


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "serve",
        usage="[flags]",
        description="Runs a local server that answers with a short text, or with the fault that the path names.",
        examples=_EXAMPLES,
    )
    made.group("where")
    made.value("host", "--host", metavar="ADDRESS", text=f"address to listen on (default: {_server.DEFAULT_HOST})")
    made.value("port", "--port", metavar="N", text=f"port to listen on; 0 takes a free one (default: {DEFAULT_PORT})")
    made.value("threads", "--threads", metavar="N", text="worker threads (default: one for each core)")
    made.group("answers")
    made.value("delay", "--delay", metavar="SECONDS", text="wait before each answer: 1.5, or 0..3 evenly between")
    made.value("delay_whole", "--delay-whole", metavar="SECONDS", text="the same, in whole seconds only")
    made.value("body_bytes", "--body-bytes", metavar="SIZE", text="length of each body (default: a greeting)")
    made.value("status", "--status", metavar="N", text=f"status of each answer (default: {_server.DEFAULT_STATUS})")
    made.value("seed", "--seed", metavar="N", text=f"seed of the random delays (default: {_server.DEFAULT_SEED})")
    made.value(
        "robots",
        "--robots",
        metavar="PATH",
        text="answer /robots.txt as this path of the server: /status/503, /fault/refuse, /base64/...",
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
        "tls_made",
        "--tls-made",
        metavar="FILE",
        text="serve with TLS, with a certificate that is made now for localhost, and written to this file",
    )
    made.group("capacity")
    made.value("capacity", "--capacity", metavar="N", text="answer N at once, others wait; /capacity/M changes it")
    made.switch("refuse", "--refuse", text="answer 503 to what is beyond the capacity")
    made.group("limits of an API")
    made.value(
        "api_rate",
        "--api-rate",
        metavar="RATE",
        text="answer 429 with Retry-After beyond so many requests in a time: 500/s, 5/2s",
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
        metavar="SECONDS",
        text=f"so many seconds' worth at once after a pause (default: {_server.DEFAULT_API_BURST_S:g})",
    )
    made.switch("api_per_host", "--api-per-host", text="limit each host (header Host) for itself")
    made.value(
        "api_fail_first",
        "--api-fail-first",
        metavar="PERCENT",
        text="answer 500 to the first try of so many, told apart by Idempotency-Key or URL",
    )
    made.group("log")
    made.value(
        "log", "--log", metavar="FILE", text="write time (µs), status, host and path of each request, with tabs between"
    )
    return made
