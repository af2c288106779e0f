"""Measures headgate, compared with other clients and with an older version.

Prints the tables to standard output, each trial as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from harness import command, environment
from harness.findings import Finding
from harness.servers import ServerError, raise_open_files
from rivals import Rival
from rivals.floor import Floor
from rivals.headgate import FORMATS, Headgate
from rivals.oha import Oha
from rivals.python_programs import AIOHTTP
from rivals.wrk import Wrk
from scenarios import Bench, Scenario, cells, client, memory, original, requests, throughput

SCENARIOS: Final[dict[str, Scenario]] = {
    module.NAME: module for module in (throughput, client, memory, original, requests)
}
_OHA: Final = command.ROOT / "target" / "bench-tools" / "bin" / "oha"
_FLOOR: Final = command.ROOT / "target" / "release" / "examples" / "floor"
_QUICK: Final = {"rounds": 1, "seconds": 0.5, "memory_rows": [20_000, 200_000], "client_rows": [20_000]}
_CAVEATS: Final = (
    command.TRUST_RATIOS,
    "- Loopback, small responses, TLS only where it is said: what is measured is the client's own work for a request.",
    "- Where the server's core is as busy as can be and the client's is not, the figure is the server's.",
    "- wrk, oha and the floor repeat one request; aiohttp and headgate make a URL for each row.",
    "- wrk is stopped by the clock; the others end with their last request, and slow ends count.",
    "- Rates are by each client's own clock and leave out its start; CPU and memory are the whole process's.",
)


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    if requests.NAME in arguments.scenario and arguments.before is None:
        return command.refuse(
            "requests needs --before: the interpreter of a virtual environment with the older version"
        )
    try:
        rivals, missing = _rivals(arguments)
        bench = _bench(arguments, rivals)
        about = environment.describe(rivals, missing)
    except ServerError as error:
        return command.refuse(str(error))
    about |= {name: getattr(bench, name) for name in ("concurrencies", "rounds", "seconds", "memory_rows")}
    return command.run(
        {name: partial(_measure, SCENARIOS[name], bench) for name in arguments.scenario},
        about,
        title="Requests",
        caveats=_caveats,
        keep_as="" if arguments.save else None,
    )


def _measure(scenario: Scenario, bench: Bench) -> Finding:
    return scenario.finding(list(scenario.run(bench)))


def _bench(arguments: argparse.Namespace, rivals: list[Rival]) -> Bench:
    raise_open_files(max(*arguments.concurrency, 10_000))
    return Bench(
        cores=command.two_cores("the benchmark"),
        rivals=rivals,
        headgate=arguments.headgate,
        before=arguments.before and arguments.before.with_name("headgate"),
        concurrencies=arguments.concurrency,
        cells=arguments.cells,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        memory_rows=tuple(arguments.memory_rows),
        client_rows=tuple(arguments.client_rows),
    )


def _rivals(arguments: argparse.Namespace) -> tuple[list[Rival], dict[str, str]]:
    """Returns the installed clients, with headgate as the last, and why others are missing.

    Raises:
        ServerError: A required client is missing.
    """
    ours = [Headgate(arguments.headgate, format_) for format_ in FORMATS]
    needed = [*ours, *([Headgate(arguments.before.with_name("headgate"), "none")] if arguments.before else [])]
    if why := next(filter(None, (rival.missing() for rival in needed)), None):
        raise ServerError(why)
    peers: list[Rival] = [
        Floor(_FLOOR),
        Wrk(),
        Oha(arguments.oha),
        *AIOHTTP,
    ]
    if arguments.scenario == [requests.NAME]:
        peers = [peer for peer in peers if peer.name in requests.PEERS]
    missing = {peer.name: why for peer in peers if (why := peer.missing())}
    for name, why in missing.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    if missing and arguments.require_peers:
        raise ServerError("--require-peers: not all of them are there")
    return [*(peer for peer in peers if peer.name not in missing), *ours], missing


def _caveats(about: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name}: {version}" for name, version in about["versions"].items())
    return f"{environment.caveats(about, _CAVEATS)}\n- Versions: {versions}."


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__)
    command.add_headgate(parser)
    command.add_before(parser)
    parser.add_argument(
        "--scenario", nargs="+", choices=SCENARIOS, help="(default: all; requests only with --before, and then alone)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="at the most; slow scenarios make fewer (default: 5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a trial of throughput or requests (default: 4)")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 1_000, 10_000], help="of these two, too")
    parser.add_argument("--cells", nargs="+", choices=cells.NAMES, default=[], metavar="CELL", help=_cells_told())
    parser.add_argument("--memory-rows", type=int, nargs=2, default=[300_000, 3_000_000], metavar=("SMALL", "LARGE"))
    parser.add_argument(
        "--client-rows", type=int, nargs="*", default=[100_000, 10_000_000], help="of client, for its memory"
    )
    parser.add_argument("--quick", action="store_true", help="one round of half a second each: to see that it works")
    parser.add_argument("--oha", type=Path, default=os.environ.get("OHA", _OHA), help="the command (default: $OHA)")
    parser.add_argument("--require-peers", action="store_true", help="refuse to run without one of the others")
    arguments = parser.parse_args()
    if arguments.quick:
        vars(arguments).update(_QUICK)
    others = [name for name in SCENARIOS if name != requests.NAME]
    arguments.scenario = arguments.scenario or ([requests.NAME] if arguments.before else others)
    return arguments


def _cells_told() -> str:
    return f"of requests: a kind ({', '.join(kind.name for kind in cells.KINDS)}) or one, as {next(iter(cells.CELLS))}"


if __name__ == "__main__":
    sys.exit(main())
