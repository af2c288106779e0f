"""The parts that the commands of the benchmark share: options, measuring, printing, saving and exit codes."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from harness import environment, findings
from harness.findings import Finding
from harness.servers import ServerError
from harness.trial import Cores

ROOT: Final = Path(__file__).parents[2]
HEADGATE: Final = Path(sys.executable).with_name("headgate")
TRUST_RATIOS: Final = "- Trust ratios, not figures: a ratio pairs two runs of the same round."
_MISTAKE: Final = 2
_INTERRUPTED: Final = 130


def parser(description: str | None, questions: Iterable[str] = (), default: str = "all") -> argparse.ArgumentParser:
    """Returns a parser with the options of all commands, and with the questions if there are several."""
    names = list(questions)
    made = argparse.ArgumentParser(description=description)
    if names:

        def known(name: str) -> str:
            if name not in names:
                raise argparse.ArgumentTypeError(f"{name}: the questions are {', '.join(names)}")
            return name

        help_text = f"of {', '.join(names)} (default: {default})"
        # Not `choices`, which would require a value.
        made.add_argument("question", nargs="*", type=known, help=help_text)
    made.add_argument("--save", action="store_true", help="keep the results under bench/results")
    return made


def add_headgate(to: argparse.ArgumentParser) -> None:
    """Adds the option for the headgate that is measured."""
    help_text = "the command (default: beside this interpreter)"
    to.add_argument("--headgate", type=Path, default=HEADGATE, help=help_text)


def add_before(to: argparse.ArgumentParser) -> None:
    """Adds the option for the headgate with which it is compared."""
    help_text = "of a virtual environment with the older version"
    to.add_argument("--before", type=Path, metavar="PYTHON", help=help_text)


def two_cores(what: str) -> Cores:
    """Returns the first core for the server, and the last for the client.

    Raises:
        ServerError: There is only one core.
    """
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        raise ServerError(
            f"{what} needs two cores, one for the server and one for the client; this process may use one"
        )
    return Cores(server=cores[0], client=cores[-1])


def run(
    asked: Mapping[str, Callable[[], Finding]],
    about: dict[str, Any],
    *,
    title: str,
    caveats: Callable[[Mapping[str, Any]], str],
    keep_as: str | None,
) -> int:
    """Measures, prints the findings, saves them if required, and returns the exit code.

    Args:
        asked: A function for each question.
        about: The machine and the settings, to which the share of stolen time is added.
        title: The title of the output.
        caveats: Returns the caveats for `about`.
        keep_as: The prefix of the names of saved files; `None`: nothing is saved.
    """
    before = environment.cpu_times()
    found: dict[str, Finding] = {}
    try:
        for name, measure in asked.items():
            found[name] = measure()
    except ServerError as error:
        return refuse(str(error))
    except KeyboardInterrupt:
        return _INTERRUPTED
    about["steal"] = environment.steal(before, environment.cpu_times())
    head = f"# {title}: {about['cpu']}, {about['date']}\n\n{caveats(about)}"
    print("\n\n".join([head, *map(findings.section, found.values())]))
    if keep_as is not None:
        findings.save(keep_as, found, about, head)
    return 1 if any(finding.wrong for finding in found.values()) else 0


def refuse(why: str) -> int:
    """Prints why nothing can be measured, and returns the exit code."""
    print(f"error: {why}", file=sys.stderr)
    return _MISTAKE
