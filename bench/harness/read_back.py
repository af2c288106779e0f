"""Reads the Parquet parts of a run in a separate process: with pyarrow, or with DuckDB if they do not fit in memory.

The process that starts the clients must stay small: see `processes.run`.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

_BODY: Final = b"Hello, World!"
"""The body of every response; `servers` has it, too, which this process does not load."""
_BLOCK_ROWS: Final = 10_000_000
"""The rows that are checked at a time, in half a gigabyte."""


class Totals(NamedTuple):
    """The totals of all parts."""

    rows: int
    distinct_rows: int
    with_status_200: int
    body_bytes: int


def totals(directory: Path) -> Totals:
    """Returns the totals of the parts."""
    return Totals(*_start("totals", directory))


def delays_s(directory: Path) -> list[int]:
    """Returns the time of each response in whole seconds, in the order of the starts of the requests."""
    delays: list[int] = _start("delays", directory)
    return delays


class Block(NamedTuple):
    """A block of rows: how many of the rows `first` to `first + rows - 1` were found, are distinct, and are right."""

    first: int
    rows: int
    found: int
    distinct: int
    right: int


class Everything(NamedTuple):
    """The number of rows that were found, and the blocks of expected rows."""

    found: int
    blocks: list[Block]


def everything(directory: Path, rows: int) -> Everything:
    """Checks each of so many rows; a row is right if it has status 200 and the body of our servers."""
    found, blocks = _start("everything", directory, rows)
    return Everything(found, [Block(*block) for block in blocks])


def _start(question: str, directory: Path, *numbers: int) -> Any:  # noqa: ANN401 - JSON
    command = [sys.executable, __file__, question, str(directory), *map(str, numbers)]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)


def _read(question: str, directory: Path) -> list[int]:
    import pyarrow as pa  # noqa: PLC0415 - only in the process that reads
    import pyarrow.compute as pc  # noqa: PLC0415
    import pyarrow.parquet as pq  # noqa: PLC0415

    columns = ["row", "status", "body", "received_bytes", "started_at", "elapsed_us"]
    wanted = columns[:4] if question == "totals" else columns[4:]
    parts = [pq.read_table(part, columns=wanted) for part in sorted(directory.glob("*.parquet"))]
    if not parts:
        return [0, 0, 0, 0] if question == "totals" else []
    table = pa.concat_tables(parts)
    if question == "delays":
        return [round(elapsed / 1e6) for elapsed in table.sort_by("started_at")["elapsed_us"].to_pylist()]
    body_bytes = pc.sum(pc.binary_length(table["body"])).as_py()
    if body_bytes != pc.sum(table["received_bytes"]).as_py():
        raise SystemExit("the column received_bytes does not say how long the bodies are")
    with_status_200 = pc.sum(pc.equal(table["status"], 200)).as_py()
    return [table.num_rows, pc.count_distinct(table["row"]).as_py(), with_status_200, body_bytes]


def _everything(directory: Path, rows: int) -> tuple[int, list[list[int]]]:
    import duckdb  # noqa: PLC0415 - only in the process that reads

    parts = str(directory / "*.parquet")
    total, *_ = duckdb.execute("SELECT count(*) FROM read_parquet(?)", [parts]).fetchone()
    query = """
        SELECT count(*), count(DISTINCT row), count(*) FILTER (status = 200 AND body = ?)
        FROM read_parquet(?) WHERE row >= ? AND row < ?
    """
    blocks = []
    for first in range(0, rows, _BLOCK_ROWS):
        length = min(_BLOCK_ROWS, rows - first)
        blocks.append([first, length, *duckdb.execute(query, [_BODY, parts, first, first + length]).fetchone()])
    return total, blocks


if __name__ == "__main__":
    question, directory, *limits = sys.argv[1:]
    result = _everything(Path(directory), int(limits[0])) if limits else _read(question, Path(directory))
    print(json.dumps(result))
