"""Reads the Parquet parts of a run with pyarrow, in a process of its own.

The process that starts the clients must stay small: see `processes.run`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple


class Totals(NamedTuple):
    """Of all parts together."""

    rows: int
    distinct_rows: int
    with_status_200: int
    body_bytes: int


def totals(directory: Path) -> Totals:
    """Adds up."""
    return Totals(*_ask("totals", directory))


def delays_s(directory: Path) -> list[int]:
    """How long each answer took in whole seconds, in the order in which the requests were started."""
    delays: list[int] = _ask("delays", directory)
    return delays


def _ask(question: str, directory: Path) -> Any:  # noqa: ANN401 - JSON
    command = [sys.executable, __file__, question, str(directory)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _answer(question: str, directory: Path) -> list[int]:
    import pyarrow as pa  # noqa: PLC0415 - only in the process that reads
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = ["row", "status", "body", "body_bytes", "started_at", "elapsed_us"]
    wanted = columns[:4] if question == "totals" else columns[4:]
    parts = [pq.read_table(part, columns=wanted) for part in sorted(directory.glob("*.parquet"))]
    if not parts:
        return [0, 0, 0, 0] if question == "totals" else []
    table = pa.concat_tables(parts)
    if question == "delays":
        return [round(elapsed / 1e6) for elapsed in table.sort_by("started_at")["elapsed_us"].to_pylist()]
    body_bytes = pc.sum(pc.binary_length(table["body"])).as_py()
    if body_bytes != pc.sum(table["body_bytes"]).as_py():
        raise SystemExit("the column body_bytes does not say how long the bodies are")
    with_status_200 = pc.sum(pc.equal(table["status"], 200)).as_py()
    return [table.num_rows, pc.count_distinct(table["row"]).as_py(), with_status_200, body_bytes]


if __name__ == "__main__":
    print(json.dumps(_answer(sys.argv[1], Path(sys.argv[2]))))
