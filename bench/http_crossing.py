"""Measures the cost of HTTP requests for callers in threads and in a loop, compared with other clients.

nginx responds with 1,000 bytes on one core; each run of a client is a process on the other. They are compared with
ZEO, a storage whose calls also cross from a thread into a loop. Prints the findings to standard output, each run as it
ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import importlib.util
import re
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from callers import in_flight, one, threads, zeo
from callers.clients import CLIENTS
from harness import command, environment, nginx
from harness.findings import Question
from harness.servers import ServerError

QUESTIONS: Final[dict[str, Question]] = {"one": one, "threads": threads, "in-flight": in_flight, "zeo": zeo}

_NOTES: Final = """\
- The clients don't do the same work: the blocking socket repeats one request, and reads no more of a response
  than its status and where its body begins and ends; requests looks for proxies and passwords before each.
- `µs each` is what a caller waits on average, `median` what half of its requests take at most: on a machine that others
  use, too, the latter says more. CPU is of all threads of the client's process.
- ZEO's server runs on uvloop's loop, whatever the loop of the client. The client looks into its cache before a call,
  and stores there what it gets: that is part of its figures."""


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    chosen = [client for client in CLIENTS if client.name in arguments.only]
    missing = {client.name: why for client in chosen if (why := client.missing())}
    for name, why in missing.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    if missing and arguments.require_peers:
        return command.refuse("--require-peers: not all of them are there")
    present = [client for client in chosen if client.name not in missing]
    if not present:
        return command.refuse("none of the clients is there")
    arguments.chosen = [client.name for client in present]
    about = environment.machine()
    packages = sorted(
        {package for client in present for package in client.packages if importlib.util.find_spec(package)}
    )
    try:
        about["versions"] = {"nginx": _nginx(), **{package: version(package) for package in packages}}
    except ServerError as error:
        return command.refuse(str(error))
    about |= {"missing": [], "left_out": missing}
    about |= {name: getattr(arguments, name) for name in ("rounds", "seconds", "requests", "threads", "in_flight")}
    return command.run(
        {name: partial(QUESTIONS[name].measure, arguments) for name in arguments.question or QUESTIONS},
        about,
        title="Callers in threads and in a loop",
        caveats=_caveats,
        keep_as="crossing-" if arguments.save else None,
    )


def _nginx() -> str:
    printed = subprocess.run([nginx.program(), "-v"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"\d+\.\d+\.\d+", printed)
    return found[0] if found else "?"


def _caveats(about: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
    general = (
        command.TRUST_RATIOS,
        f"- Loopback; the server has one core, and all threads of a client the other; {versions}.",
        _NOTES,
        *(f"- Left out: {name}: {why}." for name, why in about["left_out"].items()),
    )
    return environment.caveats(about, general)


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__, QUESTIONS)
    parser.add_argument("--rounds", type=int, default=5, help="(default: 5)")
    parser.add_argument("--seconds", type=float, default=0.7, help="that a run takes at the most (default: 0.7)")
    parser.add_argument("--requests", type=int, default=50_000, help="of a run, at the most (default: 50000)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 64], help="of `threads` (default: 1 8 64)")
    parser.add_argument(
        "--in-flight", type=int, nargs="+", default=[1, 64, 1_000], help="of `in-flight` (default: 1 64 1000)"
    )
    names = [client.name for client in CLIENTS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help="; ".join(names))
    parser.add_argument("--require-peers", action="store_true", help="refuse to run without one of the clients")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
