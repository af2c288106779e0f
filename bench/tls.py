"""Measures TLS handshakes compared with curl: a connection for each request, with and without resumed sessions.

The server is nginx on a separate core, which closes each connection after its response. If sessions may be resumed,
it issues tickets; otherwise it neither issues them nor caches sessions. Prints the findings to standard output,
each run as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness import command, environment, nginx, processes, tables
from harness.findings import Finding
from harness.servers import BODY, ServerError

_CLIENTS: Final = ("curl", "headgate")
_IN_FLIGHT: Final = 16
_LONGEST_S: Final = 600.0
_HERE: Final = "127.0.0.1"
_LEAST_SHARE: Final = 1.0

_CONFIG: Final = """\
    keepalive_timeout 0;
    ssl_certificate {directory}/certificate.pem;
    ssl_certificate_key {directory}/key.pem;
    ssl_protocols TLSv1.2 TLSv1.3;
    server {{
        listen {here}:{resumed} ssl backlog=65535;
        ssl_session_cache shared:one:10m;
        ssl_session_tickets on;
        location / {{ return 200 "{body}"; }}
    }}
    server {{
        listen {here}:{full} ssl backlog=65535;
        ssl_session_cache off;
        ssl_session_tickets off;
        location / {{ return 200 "{body}"; }}
    }}"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Made:
    """The figures of a client."""

    client: str
    resumes: bool
    handshakes_per_s: float
    cpu_us: float
    server_cpu_us: float
    wrong: str


def _curl() -> str:
    found = shutil.which("curl")
    if found is None:
        raise ServerError("curl is what headgate is measured beside, and there is none; run: apt install curl")
    return found


def _argv(client: str, arguments: argparse.Namespace, url: str) -> list[str]:
    pattern = f"{url}/[1-{arguments.requests}]"
    if client == "headgate":
        fixed = ["--format", "none", "--threads", "1", "-k", "-q", "--retries", "0"]
        return [str(arguments.headgate), "fetch", pattern, "-c", str(_IN_FLIGHT), *fixed]
    return [_curl(), "-q", "-s", "-k", "-Z", "--parallel-max", str(_IN_FLIGHT), "-o", "/dev/null", pattern]


def _measured(client: str, arguments: argparse.Namespace, core: int, server: tuple[int, str], *, resumes: bool) -> Made:
    pid, url = server
    before = processes.cpu_s(pid)
    ended = processes.run(_argv(client, arguments, url), core=core, longest_s=_LONGEST_S)
    server_cpu_s = processes.cpu_s(pid) - before
    made = Made(
        client=client,
        resumes=resumes,
        handshakes_per_s=arguments.requests / ended.wall_s,
        cpu_us=ended.cpu_s / arguments.requests * 1e6,
        server_cpu_us=server_cpu_s / arguments.requests * 1e6,
        wrong="" if ended.code == 0 else f"{client} ended with {ended.code}: {ended.stderr.strip()}",
    )
    print(
        f"{client:9} {'resumed' if resumes else 'full':8} {made.handshakes_per_s:8,.0f} handshakes/s  "
        f"{made.cpu_us:7.1f} µs each, the server {made.server_cpu_us:7.1f}",
        file=sys.stderr,
    )
    return made


def _handshakes(arguments: argparse.Namespace) -> Finding:
    cores = command.two_cores("handshakes")
    made: list[Made] = []
    with tempfile.TemporaryDirectory(prefix="headgate-bench-tls-") as directory:
        resumed, full = nginx.free_port(), nginx.free_port()
        nginx.make_certificate(Path(directory))
        http = _CONFIG.format(directory=directory, here=_HERE, resumed=resumed, full=full, body=BODY.decode())
        with nginx.configured(nginx.framed(http, Path(directory)), Path(directory), resumed, cores.server) as pid:
            for _ in range(arguments.rounds):
                for resumes, port in ((True, resumed), (False, full)):
                    server = (pid, f"https://{_HERE}:{port}")
                    made += [_measured(client, arguments, cores.client, server, resumes=resumes) for client in _CLIENTS]
    targets, rows = [], []
    for resumes, name in ((True, "resumed"), (False, "full")):
        own = {client: [one for one in made if (one.client, one.resumes) == (client, resumes)] for client in _CLIENTS}
        curl, headgate = (_median(own[client], "handshakes_per_s") for client in _CLIENTS)
        targets.append(tables.at_least(f"handshakes/s, headgate / curl, {name}", headgate / curl, _LEAST_SHARE))
        rows += [_row(name, client, own[client]) for client in _CLIENTS]
    head = ["handshakes", "", "a second", "CPU µs each", "of the server"]
    raw = [{field: getattr(one, field) for field in Made.__slots__} for one in made]
    wrong = [one.wrong for one in made if one.wrong]
    return Finding(title="Handshakes beside curl", targets=targets, text=tables.table(head, rows), raw=raw, wrong=wrong)


def _median(made: list[Made], figure: str) -> float:
    return tables.median(getattr(one, figure) for one in made) or 0.0


def _row(name: str, client: str, made: list[Made]) -> list[str]:
    handshakes_per_s, *cpu_us = (_median(made, one) for one in ("handshakes_per_s", "cpu_us", "server_cpu_us"))
    return [name, client, f"{handshakes_per_s:,.0f}", *(f"{one:.0f}" for one in cpu_us)]


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    about = environment.machine()
    version = subprocess.run([_curl(), "--version"], capture_output=True, text=True, check=True).stdout
    found = re.match(r"curl \S+", version)
    about["curl"] = found[0] if found else "curl"
    return command.run(
        {"handshakes": partial(_handshakes, arguments)},
        about,
        title="TLS",
        caveats=_caveats,
        keep_as="tls-" if arguments.save else None,
    )


def _caveats(about: Mapping[str, Any]) -> str:
    return (
        f"{command.TRUST_RATIOS}\n"
        f"- {about['curl']} with OpenSSL, headgate with rustls and aws-lc; {_IN_FLIGHT} at once, and a key of P-256.\n"
        f"- One machine of {about['cores']} cores, one for the client and one for the server; its load was "
        f"{about['load_before']:.1f} before the start."
    )


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__)
    command.add_headgate(parser)
    parser.add_argument("--requests", type=int, default=5_000, help="of a run (default: 5,000)")
    parser.add_argument("--rounds", type=int, default=3, help="of each (default: 3)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
