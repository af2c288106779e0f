"""Readers of the Delta table beside a job: each read is exactly one commit, while it runs, merges and retries."""

import contextlib
import datetime as dt
import json
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from support import commits
from support.mixture import mixture, write_urls
from support.run import LONGEST_S, headgate, started

ROWS: Final = 12_000
GONE: Final = ("No such file", "does not exist", "not found", "NotFound", "No files in log segment")
"""What readers say of a file that has been removed, or of a table that isn't there yet."""


def with_delta_rs(directory: Path) -> tuple[int | None, pl.DataFrame]:
    table = DeltaTable(directory)
    return table.version(), pl.DataFrame(table.to_pyarrow_table(columns=["row", "failed"]))


def with_polars(directory: Path) -> tuple[int | None, pl.DataFrame]:
    return None, pl.scan_delta(directory).select("row", "failed").collect()


Read = Callable[[Path], tuple[int | None, pl.DataFrame]]


class Commits(threading.Thread):
    """Records the rows of each commit, and how many of them failed."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.directory = directory
        self.stopped = threading.Event()
        self.seen: dict[int, tuple[int, int]] = {0: (0, 0)}

    def run(self) -> None:
        while not self.stopped.is_set():
            self.look()
            time.sleep(0.002)
        self.look()

    def look(self) -> None:
        for path in commits.log_of(self.directory).glob("*.json"):
            if int(path.stem) not in self.seen:
                with contextlib.suppress(FileNotFoundError):
                    record = json.loads(path.read_text())["record"]
                    self.seen[int(path.stem)] = record["done"], record["totals"]["failed"]


class Reader(threading.Thread):
    """Reads in a loop, and records what it has found and all errors."""

    def __init__(self, directory: Path, read: Read) -> None:
        super().__init__()
        self.directory, self.read = directory, read
        self.stopped = threading.Event()
        self.found: list[tuple[int | None, tuple[int, int]]] = []
        self.wrong: list[str] = []
        self.errors: list[str] = []

    def run(self) -> None:
        while not self.stopped.is_set():
            self.look()

    def look(self) -> None:
        try:
            version, rows = self.read(self.directory)
        except Exception as error:  # noqa: BLE001 - the test is about errors
            self.errors.append(f"{type(error).__name__}: {error}")
            return
        if rows["row"].n_unique() != len(rows):
            self.wrong.append(f"{len(rows) - rows['row'].n_unique()} rows too many")
        self.found.append((version, (len(rows), int(rows["failed"].sum()))))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("keeps", [True, False], ids=["kept", "removed"])
def test_each_read_of_the_delta_table_is_one_commit(server: str, tmp_path: Path, keeps: bool) -> None:
    expected = mixture(server, ROWS)
    out, source = tmp_path / "out", write_urls(tmp_path / "urls.txt", expected)
    keep = ("--keep-replaced", "4s") if keeps else ()
    flags = ("--retries", "0", "-q", *keep)
    recorded, readers = Commits(out), [Reader(out, read) for read in (with_delta_rs, with_polars)]
    with started("fetch", source, "-o", out, "-c", "16", "--commit-interval", "0.1", *flags) as fetch:
        recorded.start()
        commits.wait_for(1, out, fetch)
        for reader in readers:
            reader.start()
        try:
            assert 3 == fetch.wait(2 * LONGEST_S)
            for _ in range(2):
                headgate("retry", out, "--only", "5xx,connection_closed", *flags, check=3)
        finally:
            threads: list[Reader | Commits] = [*readers, recorded]
            for thread in threads:
                thread.stopped.set()
                thread.join()
    states = set(recorded.seen.values())
    for reader in readers:
        name = reader.read.__name__
        assert [] == reader.wrong, name
        for version, state in reader.found:
            assert state in states, (name, version, state)
            assert version is None or recorded.seen[version] == state, (name, version, state)
        assert len(set(reader.found)) > 3, f"{name} has hardly seen the job run: {reader.found}"
        assert all(any(word in error for word in GONE) for error in reader.errors), (name, reader.errors)
        assert not keeps or [] == reader.errors, name
        reader.look()
        assert ROWS == reader.found[-1][1][0]
    assert 1 == len(list(out.glob("part-*.parquet"))), "what was replaced is gone"


def test_a_column_without_a_type_in_delta_is_named(server: str, tmp_path: Path) -> None:
    pl.DataFrame({"url": [f"{server}/"], "id": [2**63]}, schema={"url": pl.String, "id": pl.UInt64}).write_parquet(
        tmp_path / "ids.parquet"
    )
    done = headgate("fetch", tmp_path / "ids.parquet", "-o", tmp_path / "ids", "--keep", "id", check=0)
    assert "the results have no Delta log" in done.stderr
    assert '"id" (its type is UInt64)' in done.stderr
    assert not (tmp_path / "ids" / "_delta_log").exists()
    assert not json.loads(headgate("files", tmp_path / "ids", "--json", check=0).stdout)["delta"]


def columns() -> Iterator[pa.Array]:
    """Returns a column of each type that Delta can describe."""
    for unit in ("s", "ms", "us"):
        yield pa.array([1_778_751_000, None], pa.timestamp(unit, "UTC"))
    yield pa.array([1_778_751_000, None], pa.timestamp("us", "Europe/Zurich"))
    for number in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"):
        yield pa.array([7, None], number)
    for fraction in (pa.float32(), pa.float64()):
        yield pa.array([1.5, None], fraction)
    for decimal in (pa.decimal32(5, 2), pa.decimal64(15, 2), pa.decimal128(30, 2)):
        yield pa.array([Decimal("1.50"), None], decimal)
    for text in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(3)):
        yield pa.array(["abc", None], text)
    for date in (pa.date32(), pa.date64()):
        yield pa.array([dt.date(2026, 5, 14), None], date)
    yield pa.array([True, None])
    yield pa.array(["a", None]).dictionary_encode()
    yield pa.array([[1, None], None], pa.list_(pa.int64()))
    yield pa.array([[1, None], None], pa.large_list(pa.int64()))
    yield pa.array([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int32()), ("b", pa.string())]))
    yield pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64()))


def test_every_type_that_delta_describes_is_read_with_its_values(server: str, tmp_path: Path) -> None:
    named = {f"c{index}": column for index, column in enumerate(columns())}
    source, out = tmp_path / "rows.parquet", tmp_path / "out"
    pq.write_table(pa.table({"url": [f"{server}/1", f"{server}/2"], **named}), source)
    keep = [flag for name in named for flag in ("--keep", name)]
    done = headgate("fetch", source, "-o", out, "-c", "1", *keep, check=0)
    assert "no Delta log" not in done.stderr
    expected = pq.read_table(source).drop_columns("url").to_pylist()
    for name, column in named.items():
        values = [row[name] for row in expected]
        assert values == DeltaTable(out).to_pyarrow_table(columns=[name])[name].to_pylist(), column.type
        of_polars = pl.scan_delta(out).select(name).collect()[name].to_list()
        # polars has maps as dictionaries.
        assert values == of_polars or pa.types.is_map(column.type), column.type
        assert values[1] == of_polars[1], column.type


def test_checkpoints_replace_old_versions(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    flags = ("-o", out, "-q", "--retries", "0", "--commit-interval", "0.01", "-c", "1", "--rate", "300/s")
    headgate("fetch", f"{server}/echo/[1-600]", *flags, check=0)
    log = out / "_delta_log"
    checkpoints = sorted(log.glob("*.checkpoint.parquet"))
    assert checkpoints, [path.name for path in log.iterdir()]
    for path in log.glob("*.json"):  # a reader needs only those after the checkpoint
        if path.stem < checkpoints[-1].name[:20]:
            path.unlink()
    table = DeltaTable(out)
    assert (600, 600) == (table.to_pyarrow_table().num_rows, pl.scan_delta(out).collect().height)
    assert 1 == len(table.file_uris())
