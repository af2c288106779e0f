"""`headgate serve`: the local server to rehearse against, until it is told to stop."""

import signal
import threading
from collections.abc import Sequence
from typing import Final

from headgate._checks import whole
from headgate.cli._parser import Parser
from headgate.jobs import _server

HIGHEST_PORT: Final = 65535
DEFAULT_PORT: Final = 8080

# As the server has them.
MOST_THREADS: Final = 1024
MOST_BODY_BYTES: Final = 1024**3

_EXAMPLES: Final = """\
examples:
  headgate serve --port 8080
  headgate serve --port 0 --delay 0..3
  headgate serve --port 8080 --body-bytes 16KiB --status 503

the page / lists the faults that can be asked for by path; /stats counts what the server saw"""


def main(arguments: Sequence[str]) -> int:
    """Reads the command line, serves until SIGINT or SIGTERM."""
    values = parser().read(arguments)
    if values is None:
        return 0
    host = values.text("host")
    port = values.whole("port", DEFAULT_PORT, whole(0, HIGHEST_PORT))
    threads = values.whole_or_none("threads", whole(1, MOST_THREADS))
    status = values.whole("status", _server.DEFAULT_STATUS, whole(200, 599))  # final: RFC 9110 section 15
    seed = values.whole("seed", _server.DEFAULT_SEED, whole(0, 2**64 - 1))
    delay_s, whole_delay_s = values.span("delay"), values.span("delay_whole")
    if delay_s is not None and whole_delay_s is not None:
        values.wrong("delay_whole", "excludes --delay: give one of them")
    if whole_delay_s is not None and not all(bound.is_integer() for bound in whole_delay_s):
        values.wrong("delay_whole", "must be whole seconds, as 0..3")
    body_bytes = values.size_or_none("body_bytes", whole(0, MOST_BODY_BYTES))
    values.check()

    # From here on a signal is a wish, not an exception.
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda _number, _frame: stopped.set())
    server = _server.start_server(
        host=_server.DEFAULT_HOST if host is None else host,
        port=port,
        threads=threads,
        delay_s=whole_delay_s or delay_s or (0.0, 0.0),
        delay_whole=whole_delay_s is not None,
        body_bytes=body_bytes,
        status=status,
        seed=seed,
    )
    try:
        print(f"listening on http://{server.address}", flush=True)
        stopped.wait()
    finally:
        server.stop()
    return 0


def parser() -> Parser:
    """What can be typed after the verb."""
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
    return made
