"""Other programs read all files while the job runs: never an error, never a row twice, never fewer rows than before.

One moment is excepted. When all rows are done, small parts are merged: the new file appears, then the old ones are
removed. A program that reads meanwhile may find that a file it has listed is gone, or find rows twice. It never finds
fewer rows, nor half a file. Readers of the Delta table have no such moment (test_delta.py).
"""

import threading
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow.dataset as ds
import pytest

from support import commits, ledger
from support.mixture import mixture, write_urls
from support.run import LONGEST_S, started

ROWS = 20_000
GONE = ("No such file", "does not exist", "No files found", "expanded paths were empty")
"""Messages of readers for a file that does not exist (any more)."""

Read = Callable[[Path], list[int]]


def pyarrow_rows(directory: Path) -> list[int]:
    # It leaves out names that begin with an underscore, and so the directory of the job.
    table = ds.dataset(directory, format="parquet").to_table()
    rows: list[int] = table["row"].to_pylist()
    return rows


def duckdb_rows(directory: Path) -> list[int]:
    with duckdb.connect() as connection:
        found = connection.execute("SELECT row, body, headers FROM read_parquet(?)", [f"{directory}/*.parquet"])
        return [row for row, _, _ in found.fetchall()]


def polars_rows(directory: Path) -> list[int]:
    rows: list[int] = pl.scan_parquet(f"{directory}/*.parquet").collect()["row"].to_list()
    return rows


class Reader(threading.Thread):
    """Reads in a loop, and records every mistake."""

    def __init__(self, directory: Path, read: Read) -> None:
        super().__init__()
        self.directory, self.read = directory, read
        self.stopped = threading.Event()
        self.counts: list[int] = []
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.stopped.is_set():
            self.look()

    def look(self) -> None:
        was_merged = self.is_merged(settled=True)
        try:
            rows = self.read(self.directory)
        except Exception as error:  # noqa: BLE001 - the test is about errors
            is_excepted = self.is_merged(settled=False) and not was_merged and any(word in str(error) for word in GONE)
            if not is_excepted:
                self.wrong.append(f"after {self.counts[-3:]}: {error}")
            return
        different = len(set(rows))
        if len(rows) != different and (was_merged or not self.is_merged(settled=False)):
            self.wrong.append(f"{len(rows) - different} rows too many")
        most = max(self.counts, default=0)
        if different < most:
            self.wrong.append(f"{different} rows after {most}")
        self.counts.append(different)

    def is_merged(self, *, settled: bool) -> bool:
        """Returns whether small parts are being merged or were merged; with `settled`, whether that has ended."""
        newest = commits.newest(self.directory)
        if newest is None or not (newest.record["removes"] or newest.record["finished"]):
            return False
        return not settled or newest.is_settled(self.directory)


@pytest.mark.timeout(180)
def test_readers_see_a_running_job_without_errors_doubles_or_losses(server: str, tmp_path: Path) -> None:
    expected = mixture(server, ROWS)
    out, source = tmp_path / "out", write_urls(tmp_path / "urls.txt", expected)
    readers = [Reader(out, read) for read in (pyarrow_rows, duckdb_rows, polars_rows)]
    with started("fetch", source, "-o", out, "-c", "16", "--commit-interval", "0.1", "--retries", "0", "-q") as fetch:
        commits.wait_for(2, out, fetch)  # the files of the first commit are at their paths by then
        for reader in readers:
            reader.start()
        try:
            code = fetch.wait(2 * LONGEST_S)
        finally:
            for reader in readers:
                reader.stopped.set()
                reader.join()
    assert 3 == code
    for reader in readers:
        assert [] == reader.wrong, reader.read.__name__
        assert len(set(reader.counts)) > 3, f"{reader.read.__name__} has hardly seen the job run: {reader.counts}"
        reader.look()
        assert (ROWS, []) == (reader.counts[-1], reader.wrong)
    assert [] == ledger.mistakes(out, expected)
