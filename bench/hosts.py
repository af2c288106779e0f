"""Measures lists of many hosts: the cost of changing hosts, and the memory of idle connections.

Prints the findings to standard output, each trial as it ends to standard error. Exit code 1: a response was wrong.
"""

import argparse
import sys
from functools import partial
from typing import Final

from harness import command, environment
from harness.findings import Question
from wide import lists, memory

QUESTIONS: Final[dict[str, Question]] = {"lists": lists, "memory": memory}
_CAVEATS: Final = (
    command.TRUST_RATIOS,
    "- Loopback, no TLS, short responses: over a network, a new connection costs round trips as well.",
    "- Where the server's core is as busy as can be and the client's is not, the requests a second are the server's.",
)


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    about = environment.machine()
    about |= {"missing": [], "rounds": arguments.rounds, "share": arguments.share}
    return command.run(
        {name: partial(QUESTIONS[name].measure, arguments) for name in arguments.question or QUESTIONS},
        about,
        title="Many hosts",
        caveats=partial(environment.caveats, general=_CAVEATS),
        keep_as="hosts-" if arguments.save else None,
    )


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__, QUESTIONS)
    command.add_headgate(parser)
    command.add_before(parser)
    parser.add_argument("--rounds", type=int, default=5, help="of each (default: 5)")
    parser.add_argument("--share", type=float, default=1.0, help="of the rows of each list (default: 1)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
