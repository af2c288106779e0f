"""Measures HTTP/2: throughput and CPU time compared with h2load, and the memory of requests in flight.

Throughput is measured against nginx on a separate core, over plain connections and over TLS, with as many connections
and streams for either client. For memory, a server on Node responds later, so that all requests are in flight at
once. Prints the findings to standard output, each run as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness import command, environment, nginx, processes, servers, tables
from harness.findings import Finding
from harness.servers import BODY, ServerError
from harness.trial import Cores

_SHAPES: Final = ((1, 1), (4, 100), (10, 100))
"""Numbers of connections, and of streams on each."""
_LEAST_SHARE: Final = 0.8
_LONGEST_S: Final = 600.0
_HERE: Final = "127.0.0.1"
_BUSY: Final = 0.95
_IN_FLIGHT: Final = (1_000, 11_000)
_MOST_KIB: Final = {"HTTP/2": 8.0, "HTTP/1.1": 6.0, "HTTP/1.1, TLS": 40.0}
_HELD_MS: Final = 10_000

_CONFIG: Final = """\
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    http2_max_concurrent_streams 128;
    server {{
        listen {here}:{port} http2;
        listen {here}:{tls_port} ssl http2;
        ssl_certificate {directory}/certificate.pem;
        ssl_certificate_key {directory}/key.pem;
        location / {{ return 200 "{body}"; }}
    }}"""
_HOLDING: Final = """\
const { readFileSync } = require("fs");
const [, protocol, held, directory] = process.argv;
const respond = (_, response) => setTimeout(() => response.end("held"), Number(held));
const kind = require({ "HTTP/2": "http2", "HTTP/1.1": "http" }[protocol] ?? "https");
const secret = directory
  ? { cert: readFileSync(`${directory}/certificate.pem`), key: readFileSync(`${directory}/key.pem`) }
  : {};
const server = kind.createServer({ settings: { maxConcurrentStreams: 1000 }, ...secret }, respond);
server.keepAliveTimeout = 0;
server.listen(0, "127.0.0.1", 65535, () => console.log(server.address().port));
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """The figures of a client."""

    client: str
    connections: int
    streams: int
    tls: bool
    requests_per_s: float
    cpu_us: float
    server_cpu_us: float
    client_busy: float
    server_busy: float
    wrong: str

    def saturated(self) -> str:
        """Returns which side was saturated."""
        sides = {"client": self.client_busy, "server": self.server_busy}
        return " and ".join(side for side, busy in sides.items() if busy >= _BUSY) or "neither"


@contextmanager
def _nginx(core: int) -> Iterator[tuple[int, str, str]]:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-http2-") as directory:
        port, tls_port = nginx.free_port(), nginx.free_port()
        nginx.make_certificate(Path(directory))
        http = _CONFIG.format(directory=directory, here=_HERE, port=port, tls_port=tls_port, body=BODY.decode())
        with nginx.configured(nginx.framed(http, Path(directory)), Path(directory), port, core) as pid:
            yield pid, f"http://{_HERE}:{port}", f"https://{_HERE}:{tls_port}"


def _headgate(program: Path, summary: Path, url: str, requests: int, shape: tuple[int, int]) -> list[str]:
    connections, streams = shape
    flags = ["--http2-prior-knowledge", "--http2-streams", str(streams), "-c", str(connections * streams)]
    fixed = ["--format", "none", "--threads", "1", "-k", "-q", "--retries", "0"]
    return [str(program), "fetch", f"{url}/[1-{requests}]", *flags, *fixed, "--summary", str(summary)]


def _h2load(url: str, requests: int, connections: int, streams: int) -> list[str]:
    program = shutil.which("h2load")
    if program is None:
        raise ServerError("h2load is what headgate is measured beside, and there is none: apt install nghttp2-client")
    return [program, "-t1", f"-c{connections}", f"-m{streams}", f"-n{requests}", f"{url}/"]


def _measured(
    client: str, arguments: argparse.Namespace, cores: Cores, server: tuple[int, str], shape: tuple[int, int]
) -> Made:
    pid, url = server
    connections, streams = shape
    requests = arguments.requests if streams > 1 else arguments.requests // 10
    with tempfile.TemporaryDirectory(prefix="headgate-bench-http2-") as directory:
        summary = Path(directory, "summary.json")
        if client == "headgate":
            argv = _headgate(arguments.headgate, summary, url, requests, shape)
        else:
            argv = _h2load(url, requests, connections, streams)
        before = processes.cpu_s(pid)
        ended = processes.run(argv, core=cores.client, longest_s=_LONGEST_S)
        server_cpu_s = processes.cpu_s(pid) - before
        found = json.loads(summary.read_text()) if summary.exists() else {}
    if client == "headgate":
        succeeded, seconds = found.get("succeeded", 0), found.get("elapsed_s", ended.wall_s)
    else:
        figures = re.search(r"finished in ([\d.]+)(m?s)", ended.stdout)
        succeeded = re.search(r"(\d+) succeeded", ended.stdout)
        seconds = float(figures[1]) / (1000 if figures[2] == "ms" else 1) if figures else ended.wall_s
        succeeded = int(succeeded[1]) if succeeded else 0
    made = Made(
        client=client,
        connections=connections,
        streams=streams,
        tls=url.startswith("https:"),
        requests_per_s=succeeded / seconds,
        cpu_us=ended.cpu_s / requests * 1e6,
        server_cpu_us=server_cpu_s / requests * 1e6,
        client_busy=ended.cpu_s / ended.wall_s,
        server_busy=server_cpu_s / ended.wall_s,
        wrong="" if succeeded == requests and ended.code == 0 else f"{client}: {succeeded:,} of {requests:,} succeeded",
    )
    print(
        f"{client:9} {connections:3} x {streams:<4} {'TLS' if made.tls else 'plain':6} "
        f"{made.requests_per_s:9,.0f} requests/s  "
        f"{made.cpu_us:6.2f} µs each, the server {made.server_cpu_us:6.2f}  saturated: {made.saturated()}",
        file=sys.stderr,
    )
    return made


def _throughput(arguments: argparse.Namespace) -> Finding:
    cores = command.two_cores("throughput")
    made: list[Made] = []
    targets, rows = [], []
    with _nginx(cores.server) as (pid, plain, tls):
        for url in (plain, tls):
            for shape in _SHAPES:
                own = [
                    _measured(client, arguments, cores, (pid, url), shape)
                    for _ in range(arguments.rounds)
                    for client in ("h2load", "headgate")
                ]
                made += own
                share = _median(own, "headgate", "requests_per_s") / _median(own, "h2load", "requests_per_s")
                name = f"{shape[0]} x {shape[1]}{', TLS' if url is tls else ''}"
                targets.append(tables.at_least(f"requests/s, headgate / h2load, {name}", share, _LEAST_SHARE))
                rows += [_row(name, client, own) for client in ("h2load", "headgate")]
    head = ["connections x streams", "", "requests/s", "CPU µs each", "of the server", "saturated"]
    raw = [{field: getattr(one, field) for field in Made.__slots__} for one in made]
    wrong = [one.wrong for one in made if one.wrong]
    return Finding(title="Requests beside h2load", targets=targets, text=tables.table(head, rows), raw=raw, wrong=wrong)


def _median(made: Sequence[Made], client: str, figure: str) -> float:
    return tables.median(getattr(one, figure) for one in made if one.client == client) or 0.0


def _row(name: str, client: str, made: Sequence[Made]) -> list[str]:
    figures = (_median(made, client, figure) for figure in ("requests_per_s", "cpu_us", "server_cpu_us"))
    requests_per_s, cpu_us, server_cpu_us = figures
    saturated = sorted({one.saturated() for one in made if one.client == client})
    return [name, client, f"{requests_per_s:,.0f}", f"{cpu_us:.2f}", f"{server_cpu_us:.2f}", ", ".join(saturated)]


@contextmanager
def _holding(protocol: str) -> Iterator[str]:
    node = shutil.which("node")
    if node is None:
        raise ServerError("node, which delays the responses, is not installed; run: apt install nodejs")
    with tempfile.TemporaryDirectory(prefix="headgate-bench-http2-") as directory:
        argv = [node, "-e", _HOLDING, protocol, str(_HELD_MS)]
        is_tls = protocol.endswith("TLS")
        if is_tls:
            nginx.make_certificate(Path(directory))
            argv.append(directory)
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        with servers.terminated_at_end(process):
            assert process.stdout is not None  # noqa: S101 - for mypy: it is a pipe
            yield f"{'https' if is_tls else 'http'}://{_HERE}:{process.stdout.readline().strip()}"


def _peak(arguments: argparse.Namespace, protocol: str, in_flight: int) -> int:
    with _holding(protocol) as url:
        flags = ["--http2-prior-knowledge"] if protocol == "HTTP/2" else []
        fixed = ["--format", "none", "--threads", "1", "-q", "-k", "--retries", "0", "--timeout", "300"]
        argv = [str(arguments.headgate), "fetch", f"{url}/[1-{in_flight}]", "-c", str(in_flight), *flags, *fixed]
        ended = processes.run(argv, core=0, longest_s=_LONGEST_S)
    if ended.code != 0:
        raise ServerError(f"not all of {in_flight:,} requests succeeded: {ended.stderr.strip()}")
    print(f"{protocol:9} {in_flight:7,} in flight: {ended.peak_rss_bytes / 1e6:8.1f} MB", file=sys.stderr)
    return ended.peak_rss_bytes


def _memory(arguments: argparse.Namespace) -> Finding:
    few, many = _IN_FLIGHT
    servers.raise_open_files(many)
    targets, raw = [], []
    for protocol, bound in _MOST_KIB.items():
        peaks = {in_flight: _peak(arguments, protocol, in_flight) for in_flight in (few, many)}
        each = (peaks[many] - peaks[few]) / (many - few) / 1024
        targets.append(tables.at_most(f"memory of a request in flight, {protocol}", each, bound, "KiB"))
        raw += [{"protocol": protocol, "in_flight": count, "peak_rss_bytes": peak} for count, peak in peaks.items()]
    text = f"From the peaks with {few:,} and with {many:,} in flight; connections are counted in."
    return Finding(title="Memory of requests in flight", targets=targets, text=text, raw=raw)


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    questions = {"throughput": _throughput, "memory": _memory}
    return command.run(
        {name: partial(questions[name], arguments) for name in arguments.question or questions},
        environment.machine(),
        title="HTTP/2",
        caveats=_caveats,
        keep_as="http2-" if arguments.save else None,
    )


def _caveats(about: Mapping[str, Any]) -> str:
    return (
        f"{command.TRUST_RATIOS}\n"
        f"- One machine of {about['cores']} cores, one for the client and one for the server; its load was "
        f"{about['load_before']:.1f} before the start."
    )


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__, ("throughput", "memory"))
    command.add_headgate(parser)
    parser.add_argument("--requests", type=int, default=400_000, help="of a run (default: 400,000)")
    parser.add_argument("--rounds", type=int, default=3, help="of each (default: 3)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
