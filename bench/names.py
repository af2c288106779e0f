"""Measures the cost of DNS lookups: 100,000 hostnames once each, and 1,500 of which some get no response.

A local DNS server takes 50 ms for each response. In the same round, they are compared with as many
rows whose hosts are different IP addresses: these make as many connections and no lookups. Prints the
findings to standard output, each run as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness import command, environment, tables
from harness.findings import Finding

_NAME_SERVER: Final = command.ROOT / "target" / "release" / "examples" / "names"
_DELAY_MS: Final = 50
_LEAST_PER_S: Final = 5_000
_LEAST_SHARE: Final = 0.5
_DEAD_ROWS: Final = 1_500
_DEAD_EVERY: Final = 10
_DEAD_CONCURRENCY: Final = 256
_LONGEST_S: Final = 600


@dataclass(frozen=True, slots=True)
class Servers:
    """The addresses of the servers."""

    names: str
    port: str


@contextmanager
def _servers(program: Path) -> Iterator[Servers]:
    commands = [
        [str(_NAME_SERVER), str(_DELAY_MS)],
        [str(program), "serve", "--host", "0.0.0.0", "--port", "0"],  # noqa: S104 - all of 127.0.0.0/8
    ]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for command in commands
    ]
    try:
        names, server = (process.stdout.readline().split()[-1] for process in processes if process.stdout)
        yield Servers(names, server.rpartition(":")[2])
    finally:
        for process in processes:
            process.terminate()
            process.communicate()


def _fetch(program: Path, servers: Servers, hosts: Callable[[int], str], rows: int, concurrency: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="headgate-bench-names-") as directory:
        urls, summary = Path(directory, "urls.txt"), Path(directory, "summary.json")
        urls.write_text("".join(f"http://{hosts(row)}:{servers.port}/\n" for row in range(rows)))
        flags = [
            "--format",
            "none",
            "-q",
            "--summary",
            str(summary),
            "-c",
            str(concurrency),
            "--dns-server",
            servers.names,
        ]
        subprocess.run([program, "fetch", urls, *flags], check=False, timeout=_LONGEST_S)
        found: dict[str, Any] = json.loads(summary.read_text())
    print(
        f"{hosts(1):24} c={concurrency:<6,} {rows:9,} in {found['elapsed_s']:6.2f} s "
        f"{found['requests_per_s']:9,.0f} rows/s  {found['cpu_s'] / rows * 1e6:5.0f} µs a row  "
        f"{found['failed']:,} failed",
        file=sys.stderr,
    )
    return found


def _address(row: int) -> str:
    return f"127.{1 + row // 62_500 % 250}.{row // 250 % 250}.{1 + row % 250}"


def _many(arguments: argparse.Namespace) -> Finding:
    wrong, raw, shares, rates, costs = [], [], [], [], []
    for _ in range(arguments.rounds):
        with _servers(arguments.headgate) as servers:

            def fetch(hosts: Callable[[int], str], servers: Servers = servers) -> dict[str, Any]:
                return _fetch(arguments.headgate, servers, hosts, arguments.rows, arguments.concurrency)

            plain, named = fetch(_address), fetch(lambda row: f"h{row}.example")
        raw += [{"hosts": "addresses", **plain}, {"hosts": "names", **named}]
        wrong += [
            f"{run['failed']:,} of {run['rows']:,} rows failed: {run['errors']}"
            for run in (plain, named)
            if run["succeeded"] != arguments.rows
        ]
        rates.append(named["requests_per_s"])
        shares.append(named["requests_per_s"] / plain["requests_per_s"])
        costs.append((named["cpu_s"] - plain["cpu_s"]) / arguments.rows * 1e6)
    rate, share, cost = tables.median(rates), tables.median(shares), tables.median(costs)
    targets = [
        tables.at_least("rows a second", rate, _LEAST_PER_S),
        tables.at_least("names / addresses", share, _LEAST_SHARE),
    ]
    text = f"A name costs {tables.number(cost, '.0f')} µs of processor time beyond its connection and request."
    title = f"{arguments.rows:,} names, {_DELAY_MS} ms for each, {arguments.concurrency:,} in flight"
    return Finding(title=title, targets=targets, text=text, raw=raw, wrong=wrong)


def _dead(arguments: argparse.Namespace) -> Finding:
    def host(row: int) -> str:
        return f"dead.h{row}.example" if row % _DEAD_EVERY == 0 else f"h{row}.example"

    with _servers(arguments.headgate) as servers:
        found = _fetch(arguments.headgate, servers, host, _DEAD_ROWS, _DEAD_CONCURRENCY)
    dead = _DEAD_ROWS // _DEAD_EVERY
    wrong = []
    if (found["succeeded"], found["errors"]) != (_DEAD_ROWS - dead, {"dns": dead}):
        wrong.append(f"{found['succeeded']:,} succeeded, {found['errors']}")
    if found["bottleneck"]["kind"] != "dns":
        wrong.append(found["bottleneck"]["text"])
    text = (
        f"{found['succeeded']:,} succeeded, {found['errors']} failed, in {found['elapsed_s']:.1f} s; "
        f"{found['bottleneck']['text']}."
    )
    title = f"{_DEAD_ROWS:,} names, {dead:,} of them never succeeded, {_DEAD_CONCURRENCY:,} in flight"
    return Finding(title=title, targets=[], text=text, raw=[found], wrong=wrong)


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    return command.run(
        {"many": partial(_many, arguments), "dead": partial(_dead, arguments)},
        environment.machine(),
        title="Names",
        caveats=_caveats,
        keep_as="names-" if arguments.save else None,
    )


def _caveats(about: Mapping[str, Any]) -> str:
    return (
        f"- One machine, whose {about['cores']} cores client and servers share; its load was "
        f"{about['load_before']:.1f} before the start."
    )


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__)
    command.add_headgate(parser)
    parser.add_argument("--rows", type=int, default=100_000, help="names, each once (default: 100,000)")
    parser.add_argument("--concurrency", type=int, default=1_000, help="in flight (default: 1,000)")
    parser.add_argument("--rounds", type=int, default=3, help="of both kinds of hosts (default: 3)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
