"""Measures the cost of a run on an engine that has had one before. A program in Rust makes the runs."""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

from harness import tables
from harness.findings import Finding
from harness.servers import ServerError

_MOST_MS: Final = 1.0
_WARM, _COLD = "warm", "cold"
_STARTED, _OUTCOME, _ENDED = "started", "outcome", "ended"
_MOMENTS: Final = {
    _STARTED: "the run is started",
    _OUTCOME: "the sink has the outcome of its row",
    _ENDED: "the run has ended",
}
_NOTE: Final = """\
Runs of one row without a job directory, asked of a server in the same process; a worker for each core. Warm: the engine
has had a run before. Cold: it is started for the run, and that counts. A round is a process of its own; its figures are
the median and the 90th percentile of its runs, and the table has the medians of the rounds."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Runs a process for each round; the first builds the program if necessary."""
    command = [arguments.cargo, "bench", "--locked", "--quiet", "-p", "headgate-engine", "--bench", "warm_engine"]
    records: list[dict[str, Any]] = []
    for round_ in range(1, arguments.rounds + 1):
        try:
            ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise ServerError(f"the program that makes the runs of `warm` has failed: {error}") from error
        records += [{"round": round_, "engine": name} | own for name, own in json.loads(ended.stdout).items()]
        print(f"warm {round_}  {ended.stdout.strip()}", file=sys.stderr)
    return finding(records)


def finding(records: Sequence[dict[str, Any]]) -> Finding:
    """Returns the targets of the warm engine, and a table."""
    targets = [
        tables.at_most(
            f"warm, until {_MOMENTS[moment]}", _ms(records, _WARM, moment, "median_us"), _MOST_MS, "ms", ".3f"
        )
        for moment in (_STARTED, _OUTCOME)
    ]
    head = ["ms until", *(f"{engine}, {name}" for engine in (_WARM, _COLD) for name in ("median", "90 %"))]
    rows = [
        [
            words,
            *(
                tables.number(_ms(records, engine, moment, figure), ".3f")
                for engine in (_WARM, _COLD)
                for figure in ("median_us", "p90_us")
            ),
        ]
        for moment, words in _MOMENTS.items()
    ]
    return Finding(
        title="A run on a warm engine",
        targets=targets,
        text=f"{_NOTE}\n\n{tables.table(head, rows)}",
        raw=list(records),
    )


def _ms(records: Sequence[dict[str, Any]], engine: str, moment: str, figure: str) -> float | None:
    median_us = tables.median(record[moment][figure] for record in records if record["engine"] == engine)
    return None if median_us is None else median_us / 1e3
