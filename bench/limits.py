"""Measures how well limits are kept: rates, `Retry-After`, the capacity of a server, and the cost.

Prints the findings to standard output. Exit code 1: a response was wrong.
"""

import argparse
import sys
from functools import partial
from typing import Final

from considerate import adaptive, by_host, cost, nginx_limits, rates, sold, troubled
from harness import command, environment
from harness.findings import Question

QUESTIONS: Final[dict[str, Question]] = {
    "rates": rates,
    "sold": sold,
    "nginx": nginx_limits,
    "troubled": troubled,
    "by-host": by_host,
    "adaptive": adaptive,
    "cost": cost,
}
_CAVEATS: Final = (
    command.TRUST_RATIOS,
    "- Loopback: what is sent is there at once; a server that does not run for some milliseconds reads it together.",
    "- What a server saw, and when, is by its own log; it has one core, headgate the other.",
)


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    about = environment.machine()
    about |= {"missing": [], "rounds": arguments.rounds, "seconds": arguments.seconds, "rows": arguments.rows}
    return command.run(
        {name: partial(QUESTIONS[name].measure, arguments) for name in arguments.question or QUESTIONS},
        about,
        title="Limits",
        caveats=partial(environment.caveats, general=_CAVEATS),
        keep_as="limits-" if arguments.save else None,
    )


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__, QUESTIONS)
    command.add_headgate(parser)
    command.add_before(parser)
    parser.add_argument("--rounds", type=int, default=5, help="of `cost` (default: 5)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a trial of `cost` or `rates` (default: 10)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of `by-host` (default: 1000000)")
    parser.add_argument("--hosts", type=int, default=1_000, help="of `by-host` (default: 1000)")
    capacities = sorted({case.capacity for case in adaptive.CASES})
    help_text = f"of the servers of `adaptive` (default: {' '.join(map(str, capacities))})"
    parser.add_argument("--capacities", type=int, nargs="+", choices=capacities, default=capacities, help=help_text)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
