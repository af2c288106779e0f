"""Measures what durability promises and what it costs.

Prints the findings to standard output, each step as it ends to standard error. Exit code 1: an answer was wrong.
Needs `tests` on the PYTHONPATH, as `make bench-durability` has it: the checks are those of the tests.
"""

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from durable import cost, kill, resume
from harness import answers, environment
from harness.answers import Answer, Question
from harness.servers import ServerError

QUESTIONS: Final[dict[str, Question]] = {"kill": kill, "resume": resume, "cost": cost}


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    asked = arguments.question or [name for name in QUESTIONS if name != "cost" or arguments.before]
    if "cost" in asked and arguments.before is None:
        return _refuse("cost needs --before: the interpreter of a virtual environment with the version before")
    if "cost" in asked and len(os.sched_getaffinity(0)) == 1:
        return _refuse("cost needs two cores, one for the server and one for the client; this process may use one")
    about, before = environment.machine(), environment.cpu_times()
    found: dict[str, Answer] = {}
    try:
        for name in asked:
            found[name] = QUESTIONS[name].ask(arguments)
    except ServerError as error:
        return _refuse(str(error))
    except KeyboardInterrupt:
        return 130
    about["steal"] = environment.steal(before, environment.cpu_times())
    head = f"# Durability: {about['cpu']}, {about['date']}\n\n{_caveats(about)}"
    print("\n\n".join([head, *map(answers.section, found.values())]))
    if arguments.save:
        answers.save("durability", found, about, head)
    return 1 if any(answer.wrong for answer in found.values()) else 0


def _caveats(about: Mapping[str, Any]) -> str:
    virtual = " of a virtual machine" if about["virtual_machine"] else ""
    return (
        f"- One machine: {about['cpu']}, {about['cores']} cores{virtual}, {about['kernel']}, Python "
        f"{about['python']}.\n"
        f"- The load was {about['load_before']:.1f} before the start; {about['steal']:.0%} of the time went to other "
        "machines.\n"
        "- A kill of a process is no loss of power: what the kernel has not yet written to the disk outlives it."
    )


def _refuse(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return 2


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("question", nargs="*", help=f"of {', '.join(QUESTIONS)} (default: all that can be asked)")
    parser.add_argument("--kills", type=int, default=100, help="in all (default: 100)")
    parser.add_argument("--rows", type=int, default=200_000, help="of each job that is killed (default: 200,000)")
    parser.add_argument("--seed", type=int, default=0, help="of the instants (default: 0)")
    parser.add_argument("--done-rows", type=int, default=100_000_000, help="of `resume` (default: 100,000,000)")
    parser.add_argument("--text-rows", type=int, default=20_000_000, help="of `resume` (default: 20,000,000)")
    parser.add_argument("--before", type=Path, metavar="PYTHON", help="of a virtual environment with the older version")
    parser.add_argument("--seconds", type=float, default=25.0, help="of a trial of `cost`: two commits (default: 25)")
    parser.add_argument("--rounds", type=int, default=5, help="of `cost` and `resume` (default: 5)")
    parser.add_argument("--save", action="store_true", help="keep the results under bench/results")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.question if name not in QUESTIONS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: the questions are {', '.join(QUESTIONS)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
