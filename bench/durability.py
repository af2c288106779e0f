"""Measures the promises and the cost of durability.

Prints the findings to standard output, each step as it ends to standard error. Exit code 1: a response was wrong.
Needs `tests` on the PYTHONPATH, as `make bench-durability` has it: the checks are those of the tests.
"""

import argparse
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from durable import cost, kill, large, resume
from harness import command, environment
from harness.findings import Question

QUESTIONS: Final[dict[str, Question]] = {"kill": kill, "resume": resume, "cost": cost, "large": large}


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    asked = arguments.question or ["kill", "resume", *(["cost"] if arguments.before else [])]
    if "cost" in asked and arguments.before is None:
        return command.refuse("cost needs --before: the interpreter of a virtual environment with the version before")
    return command.run(
        {name: partial(QUESTIONS[name].measure, arguments) for name in asked},
        environment.machine(),
        title="Durability",
        caveats=_caveats,
        keep_as="durability-" if arguments.save else None,
    )


def _caveats(about: Mapping[str, Any]) -> str:
    virtual = " of a virtual machine" if about["virtual_machine"] else ""
    return (
        f"- One machine: {about['cpu']}, {about['cores']} cores{virtual}, {about['kernel']}, Python "
        f"{about['python']}.\n"
        f"- The load was {about['load_before']:.1f} before the start; {about['steal']:.0%} of the time went to other "
        "machines.\n"
        "- A kill of a process is no loss of power: what the kernel has not yet written to the disk outlives it."
    )


def _arguments() -> argparse.Namespace:
    parser = command.parser(__doc__, QUESTIONS, default="kill and resume; cost with --before")
    command.add_before(parser)
    parser.add_argument("--kills", type=int, default=100, help="in all (default: 100)")
    parser.add_argument(
        "--rows", type=int, help="of each job that is killed (default: 200,000; of `large` 100,000,000)"
    )
    parser.add_argument("--concurrency", type=int, default=1_000, help="of `large` (default: 1,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the instants (default: 0)")
    parser.add_argument("--done-rows", type=int, default=100_000_000, help="of `resume` (default: 100,000,000)")
    parser.add_argument("--text-rows", type=int, default=20_000_000, help="of `resume` (default: 20,000,000)")
    parser.add_argument("--seconds", type=float, default=25.0, help="of a trial of `cost`: two commits (default: 25)")
    parser.add_argument(
        "--wrk-seconds", type=float, default=60.0, help="of wrk, before and after `large` (default: 60)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="of `cost` and `resume` (default: 5)")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
