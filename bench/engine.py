"""Measures the promises of the engine: hosts that change with each row, columns of JSON, a warm engine.

Prints the findings to standard output, each trial as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import sys
from functools import partial
from typing import Final

from harness import command, environment
from harness.findings import Question
from inside import hosts, select, warm

QUESTIONS: Final[dict[str, Question]] = {"hosts": hosts, "select": select, "warm": warm}
_CAVEATS: Final = (
    command.TRUST_RATIOS,
    "- Loopback, no TLS, short responses: what is measured is headgate's own work for a request or a run.",
    "- Where the server's core is as busy as can be and headgate's is not, the requests a second are the server's.",
)


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    about = environment.machine()
    about |= {"missing": [], "rounds": arguments.rounds, "seconds": arguments.seconds}
    return command.run(
        {name: partial(QUESTIONS[name].measure, arguments) for name in arguments.question or QUESTIONS},
        about,
        title="The engine",
        caveats=partial(environment.caveats, general=_CAVEATS),
        keep_as="engine-" if arguments.save else None,
    )


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__, QUESTIONS)
    command.add_headgate(parser)
    parser.add_argument("--rounds", type=int, default=5, help="of each (default: 5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a trial of `hosts` and `select` (default: 4)")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 1_000], help="of both (default: 64 1000)")
    parser.add_argument("--cargo", default="cargo", help="builds the program of `warm` (default: cargo)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
