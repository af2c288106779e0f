"""Measures what a short program waits for, beside httpx: the import, the first client, and its first response.

Each run is a new interpreter, with cached bytecode as after an installation. The server is `headgate serve` on another
core. Prints the findings to standard output, each run as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from harness import command, environment, processes, tables
from harness.findings import Finding
from harness.servers import BODY, local_server
from harness.tables import Target

OURS: Final = "headgate"
OTHER: Final = "httpx"
_CLIENTS: Final = (OURS, OTHER)
_MOST: Final = 0.5
_LONGEST_S: Final = 60.0

# `time` and `sys` are part of the interpreter.
_PROGRAM: Final = """\
import sys, time
started = time.perf_counter()
import {client}
imported = time.perf_counter()
client = {client}.Client()
created = time.perf_counter()
body = client.get(sys.argv[1]).content
responded = time.perf_counter()
print(imported - started, created - imported, responded - created, len(body))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """The times of one interpreter, in milliseconds; `wrong` is why they don't count, and empty if they do."""

    client: str
    round: int
    import_ms: float = 0.0
    client_ms: float = 0.0
    response_ms: float = 0.0
    wrong: str = ""

    @property
    def all_ms(self) -> float:
        """The time until the first response."""
        return self.import_ms + self.client_ms + self.response_ms


_STEPS: Final = {
    "import_ms": "import",
    "client_ms": "first Client()",
    "response_ms": "first response",
    "all_ms": "in all",
}


def run_of(client: str, round_: int, ended: processes.Ended) -> Run:
    """Returns the run for what its process has printed."""
    if ended.code != 0:
        return Run(client=client, round=round_, wrong=f"{client} ended with {ended.code}: {ended.stderr.strip()}")
    *times_s, length = map(float, ended.stdout.split())
    wrong = "" if length == len(BODY) else f"{client} received {length:.0f} bytes, not {len(BODY)}"
    import_ms, client_ms, response_ms = (time_s * 1000 for time_s in times_s)
    return Run(
        client=client, round=round_, import_ms=import_ms, client_ms=client_ms, response_ms=response_ms, wrong=wrong
    )


def ratio(runs: Iterable[Run], step: str) -> float | None:
    """Returns headgate's time divided by httpx's: the median of the pairs of a round."""
    made = list(runs)
    ours, other = ([run for run in made if run.client == client] for client in _CLIENTS)
    return tables.median_of_pairs(ours, other, lambda run, beside: getattr(run, step) / getattr(beside, step))


def targets(runs: Iterable[Run]) -> list[Target]:
    """Returns the promised bounds: half of httpx's time for the import, and for the first client."""
    made = list(runs)
    return [
        tables.at_most(f"{_STEPS[step]}, {OURS} / {OTHER}", ratio(made, step), _MOST, "times", ".2f")
        for step in ("import_ms", "client_ms")
    ]


def _startup(arguments: argparse.Namespace) -> Finding:
    cores = command.two_cores("startup")
    made: list[Run] = []
    with local_server(arguments.headgate, cores.server) as server:
        for round_ in range(arguments.rounds + 1):  # the first one stores bytecode, and does not count
            for client in _CLIENTS:
                argv = [sys.executable, "-c", _PROGRAM.format(client=client), f"{server.url}/hello"]
                run = run_of(client, round_, processes.run(argv, core=cores.client, longest_s=_LONGEST_S))
                made += [run] if round_ else []
                shown = "  ".join(f"{name} {getattr(run, step):6.1f} ms" for step, name in _STEPS.items())
                print(f"{client:9} {shown}  {run.wrong}", file=sys.stderr)
    wrong = [run.wrong for run in made if run.wrong]
    raw = [asdict(run) for run in made]
    return Finding(title=f"Beside {OTHER}", targets=targets(made), text=_table(made), raw=raw, wrong=wrong)


def _table(made: list[Run]) -> str:
    def row(step: str, name: str) -> list[str]:
        medians = (
            tables.median(getattr(run, step) for run in made if run.client == client and not run.wrong)
            for client in _CLIENTS
        )
        return [name, *(tables.number(median, ".1f") for median in medians), tables.number(ratio(made, step), ".2f")]

    head = ["ms, median", *_CLIENTS, f"{OURS} / {OTHER}"]
    return tables.table(head, (row(step, name) for step, name in _STEPS.items()))


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    about = environment.machine()
    about |= {"missing": [], "rounds": arguments.rounds, "versions": {OTHER: version(OTHER)}}
    return command.run(
        {"client": partial(_startup, arguments)},
        about,
        title="Startup",
        caveats=_caveats,
        keep_as="startup-" if arguments.save else None,
    )


def _caveats(about: Mapping[str, Any]) -> str:
    general = (
        command.TRUST_RATIOS,
        f"- {OTHER} {about['versions'][OTHER]}; {about['rounds']} new interpreters of each, in turn, on one core.",
        f"- The response is of plain HTTP. {OTHER} reads the trusted certificates when a client is created, headgate",
        "  with the first TLS connection, which takes some 30 ms longer.",
    )
    return environment.caveats(about, general)


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__)
    command.add_headgate(parser)
    parser.add_argument("--rounds", type=int, default=20, help="of each (default: 20)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
