"""Measures the cost of a call from a thread into an event loop, compared with other ways.

Prints the findings to standard output, each run as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import importlib.util
import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import version
from typing import Any, Final

from crossing import cost
from harness import command, environment

_PACKAGES: Final = ("headgate", "anyio", "uvloop")


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    if missing := [package for package in _PACKAGES if importlib.util.find_spec(package) is None]:
        return command.refuse(f"not installed: {', '.join(missing)}; run: make build, make bench-portal")
    about = environment.machine()
    about["versions"] = {package: version(package) for package in _PACKAGES}
    about["missing"] = []
    about |= {name: getattr(arguments, name) for name in ("rounds", "calls", "threads", "loop", "cores")}
    return command.run(
        {"cost": partial(cost.measure, arguments)},
        about,
        title="Calls from threads",
        caveats=_caveats,
        keep_as="portal-" if arguments.save else None,
    )


def _caveats(about: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{package} {number}" for package, number in about["versions"].items())
    general = (
        command.TRUST_RATIOS,
        f"- A process of its own for each run; {versions}.",
        "- The coroutine returns at once: all of the cost is that of the crossing, both ways.",
        "- With several cores, threads on different cores compete for the interpreter: every way costs more.",
    )
    return environment.caveats(about, general)


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="(default: 7)")
    parser.add_argument("--calls", type=int, default=12_800, help="of a run, of all threads (default: 12800)")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 64], help="(default: 1 8 64)")
    loops = ("asyncio", "uvloop")
    parser.add_argument("--loop", nargs="+", choices=loops, default=list(loops), help="(default: both)")
    parser.add_argument("--cores", type=int, nargs="+", choices=(1, 2), default=[1, 2], help="(default: 1 2)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
