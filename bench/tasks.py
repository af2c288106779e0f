"""Measures the cost of a bounded task, compared with other ways of running many tasks, few at once.

Prints the findings to standard output, each run as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import importlib.util
import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from bounded import cost, memory, options
from bounded.ways import AMAP, FLOOR, WAYS
from bounded.workloads import WORKLOADS
from harness import command, environment
from harness.findings import Question

QUESTIONS: Final[dict[str, Question]] = {"cost": cost, "memory": memory, "options": options}


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    if AMAP.missing():
        return command.refuse("headgate is not installed for this interpreter; run: make build")
    missing = {way.name: why for way in arguments.ways if (why := way.missing())}
    for name, why in missing.items():
        print(f"left out: {name}: {why}", file=sys.stderr)
    if missing and arguments.require_peers:
        return command.refuse("--require-peers: not all of them are there")
    if arguments.uvloop and importlib.util.find_spec("uvloop") is None:
        return command.refuse("--uvloop: no package uvloop; run: pip install -r requirements/bench.txt")
    arguments.ways = [way for way in arguments.ways if way.name not in missing]
    about = environment.machine()
    about["loop"] = f"uvloop {version('uvloop')}" if arguments.uvloop else "asyncio's own event loop"
    packages = dict.fromkeys(way.package for way in arguments.ways if way.package)
    about["versions"] = {package: version(package) for package in packages}
    about["missing"] = list(missing)
    about |= {name: getattr(arguments, name) for name in ("rounds", "seconds", "limit", "workload")}
    loop = "-uvloop" if arguments.uvloop else ""
    return command.run(
        {name: partial(QUESTIONS[name].measure, arguments) for name in arguments.question or QUESTIONS},
        about,
        title="Bounded tasks",
        caveats=_caveats,
        keep_as=f"tasks{loop}-" if arguments.save else None,
    )


def _caveats(about: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
    general = (
        command.TRUST_RATIOS,
        f"- {about['loop']}; a process of its own for each run, on one core; {versions}.",
        "- The tasks do next to nothing: all of the cost is that of running them. A request costs many times that.",
        "- The ways don't do the same work: the last table of the costs says what each keeps.",
        "- CPU is of the timed tasks alone: unless they sleep what the clock says, where no one else has the core.",
        "- Peak memory is the whole process's; added is what came with the tasks.",
    )
    return environment.caveats(about, general)


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__, QUESTIONS)
    parser.add_argument("--rounds", type=int, default=7, help="of `memory` three at the most (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.7, help="that a run takes, about (default: 0.7)")
    parser.add_argument("--limit", type=int, nargs="+", default=[100, 1_000], help="of `cost` (default: 100 1000)")
    parser.add_argument("--workload", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="of `cost`")
    names = [way.name for way in WAYS]
    parser.add_argument("--way", nargs="+", choices=names, default=names, help="of `cost`; the floor is always there")
    parser.add_argument("--memory-tasks", type=int, nargs=2, default=[10_000, 1_000_000], metavar=("FEW", "MANY"))
    parser.add_argument("--uvloop", action="store_true", help="instead of asyncio's own loop")
    parser.add_argument("--require-peers", action="store_true", help="refuse to run without one of the others")
    arguments = parser.parse_args()
    arguments.ways = [way for way in WAYS if way is FLOOR or way.name in arguments.way]
    return arguments


if __name__ == "__main__":
    sys.exit(main())
