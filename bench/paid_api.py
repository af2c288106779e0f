"""Fetches 20,000 rows from a paid API whose token expires every 20 s, killed and resumed in between: what it costs.

Prints the findings to standard output. Exit code 1: a row was wrong, or more than 2 % of the requests were unnecessary.
Needs `tests` on the PYTHONPATH, as `make bench-paid` has it: the job and its checks are those of the tests.
"""

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness import command, environment, tables
from harness.findings import Finding
from harness.tables import Target
from support.paid import MOST_EXTRA, PROOF, Bill, Scale, prove


def main() -> int:
    """Measures, prints, and keeps the results if asked."""
    parser = command.parser(__doc__)
    parser.add_argument("--rows", type=int, default=PROOF.rows, help=f"of the table (default: {PROOF.rows:,})")
    arguments = parser.parse_args()
    return command.run(
        {"bill": lambda: measure(arguments)},
        environment.machine(),
        title="A paid API",
        caveats=_caveats,
        keep_as="paid-api-" if arguments.save else None,
    )


def measure(arguments: argparse.Namespace) -> Finding:
    """Runs the job, and returns its bill."""
    kills = [arguments.rows * kill // PROOF.rows for kill in PROOF.kills]
    scale = dataclasses.replace(PROOF, rows=arguments.rows, kills=kills)
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch:
        return finding(scale, prove(scale, Path(scratch)))


def finding(scale: Scale, bill: Bill) -> Finding:
    """Returns the finding of a job."""
    least_renewals = int(bill.seconds / scale.token_s)
    targets = [
        tables.at_most("requests", bill.ratio, 1 + MOST_EXTRA, "times the smallest number", ".4f"),
        Target(f"rows that are right: {scale.rows:,}", bill.right, f"{bill.right:,}", bill.right == scale.rows),
    ]
    head = ["", "figure"]
    rows = [
        ["requests", f"{bill.requests:,}"],
        ["smallest number of requests", f"{bill.minimum:,}"],
        ["ratio", f"{bill.ratio:.4f}"],
        ["of them with status 401", f"{bill.unauthorized:,}"],
        ["of them with status 429", f"{bill.throttled:,}"],
        ["rows that are right", f"{bill.right:,} of {scale.rows:,}"],
        ["tokens issued", f"{bill.renewals:,} (at least {least_renewals:,} in this time)"],
        ["time", f"{bill.seconds:.0f} s"],
    ]
    wrong = [*bill.wrong, *(f"{target.promise}: {target.shown}" for target in targets if not target.met)]
    text = (
        f"{scale.rows:,} rows at {scale.per_s}/s, a token of {scale.token_s:g} s, a commit every {scale.commit_s:g} s, "
        f"killed after {' and '.join(f'{kill:,}' for kill in scale.kills)} requests.\n\n{tables.table(head, rows)}"
    )
    return Finding(title="What a job costs", targets=targets, text=text, raw=[dataclasses.asdict(bill)], wrong=wrong)


def _caveats(about: Mapping[str, Any]) -> str:
    return (
        f"- One machine: {about['cpu']}, {about['cores']} cores, {about['kernel']}, Python {about['python']}.\n"
        "- The API is `headgate serve` on this machine, so the requests in flight at a kill are few."
    )


if __name__ == "__main__":
    sys.exit(main())
