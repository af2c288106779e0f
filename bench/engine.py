"""Measures what the engine promises of its inside: hosts that change with each row, runs on an engine that is warm.

Prints the findings to standard output, each trial as it ends to standard error. Exit code 1: an answer was wrong.
"""

import argparse
import sys
from pathlib import Path
from typing import Final

from harness import answers, environment
from harness.answers import Answer, Question
from harness.servers import ServerError
from inside import hosts, warm

QUESTIONS: Final[dict[str, Question]] = {"hosts": hosts, "warm": warm}
_CAVEATS: Final = (
    "- Trust ratios, not figures: a ratio pairs two runs of the same round.",
    "- Loopback, answers of 13 bytes, no TLS: what is measured is headgate's own work for a request or a run.",
    "- Where the server's core is as busy as can be and headgate's is not, the requests a second are the server's.",
)


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    arguments = _arguments()
    about, before = environment.machine(), environment.cpu_times()
    about |= {"missing": [], "rounds": arguments.rounds, "seconds": arguments.seconds}
    found: dict[str, Answer] = {}
    try:
        for name in arguments.question or QUESTIONS:
            found[name] = QUESTIONS[name].ask(arguments)
    except ServerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    about["steal"] = environment.steal(before, environment.cpu_times())
    head = f"# The engine: {about['cpu']}, {about['date']}\n\n{environment.caveats(about, _CAVEATS)}"
    print("\n\n".join([head, *map(answers.section, found.values())]))
    if arguments.save:
        answers.save("engine", found, about, head)
    return 1 if any(answer.wrong for answer in found.values()) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    beside = Path(sys.executable).with_name("headgate")
    parser.add_argument("question", nargs="*", help=f"of {', '.join(QUESTIONS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=5, help="of each (default: 5)")
    parser.add_argument("--seconds", type=float, default=4.0, help="of a trial of `hosts` (default: 4)")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[64, 1_000], help="of `hosts` (default: 64 1000)")
    parser.add_argument("--headgate", type=Path, default=beside, help="the command (default: beside this interpreter)")
    parser.add_argument("--cargo", default="cargo", help="builds the program of `warm` (default: cargo)")
    parser.add_argument("--save", action="store_true", help="keep the results under bench/results")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.question if name not in QUESTIONS]
    if unknown:
        parser.error(f"{', '.join(unknown)}: the questions are {', '.join(QUESTIONS)}")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
