"""The rows of results as Arrow, for every library that speaks its PyCapsule interface."""

import subprocess
import sys
import threading
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from headgate import OutputError, RowStream
from support.results import COLUMNS, table
from support.run import headgate

ROWS = 5_000


@pytest.fixture(scope="module")
def results(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns several parts with succeeded rows, and one with failed ones."""
    directory = tmp_path_factory.mktemp("rows")
    source = directory / "urls.txt"
    urls = [f"{server}/fault/refuse" if row == 7 else f"{server}/{row}" for row in range(ROWS)]
    source.write_text("\n".join(urls))
    out = directory / "out"
    headgate("fetch", source, "-o", out, "-c", "50", "--part-size", "50000", check=3)
    return out


@pytest.fixture
def parts(results: Path) -> list[Path]:
    found = sorted(results.glob("*.parquet"))
    assert len(found) > 2
    return found


def test_pyarrow_reads_what_the_parts_hold(results: Path, parts: list[Path]) -> None:
    read = pa.RecordBatchReader.from_stream(RowStream(parts)).read_all()
    assert list(COLUMNS) == read.column_names
    assert table(results).equals(read.sort_by("row"))


def test_polars_reads_what_the_parts_hold(parts: list[Path]) -> None:
    frame = pl.DataFrame(RowStream(parts))
    assert list(COLUMNS) == frame.columns
    assert list(range(ROWS)) == frame["row"].sort().to_list()
    assert b"Hello, World!" == frame.filter(pl.col("row") == 0)["body"].item()


def test_duckdb_reads_what_the_parts_hold_as_often_as_it_likes(parts: list[Path]) -> None:
    connection = duckdb.connect()
    connection.register("outcomes", RowStream(parts))
    query = "select count(*), count(distinct row), count(error), sum(received_bytes) from outcomes"
    for _ in range(2):
        assert [(ROWS, ROWS, 1, 13 * (ROWS - 1))] == connection.execute(query).fetchall()


def test_batches_come_one_by_one_in_the_order_of_the_parts(parts: list[Path]) -> None:
    batches = list(RowStream(parts))
    read = [pa.record_batch(batch) for batch in batches]
    assert [batch.num_rows for batch in batches] == [batch.num_rows for batch in read]
    assert max(batch.num_rows for batch in batches) <= 1024
    one_by_one = [row for part in parts for row in pa.table(RowStream([part]))["row"].to_pylist()]
    assert one_by_one == [row for batch in read for row in batch["row"].to_pylist()]


def test_every_iteration_and_every_stream_begins_anew(parts: list[Path]) -> None:
    stream = RowStream(parts)
    begun = iter(stream)
    next(begun)
    assert ROWS == sum(batch.num_rows for batch in stream)
    assert [ROWS, ROWS] == [pa.table(stream).num_rows for _ in range(2)]
    assert pa.table(stream).num_rows > sum(batch.num_rows for batch in begun) > 0


def test_the_schema_is_known_before_a_row_is_read(parts: list[Path]) -> None:
    stream = RowStream(parts)
    schema = pa.schema(stream.schema)
    assert list(COLUMNS) == schema.names
    assert pa.table(stream).schema == schema
    assert pa.schema(next(iter(stream))) == schema


def test_lines_have_the_same_types(server: str, tmp_path: Path) -> None:
    headgate("fetch", f"{server}/[0-99]", "-o", tmp_path / "out", "--format", "ndjson", check=0)
    read = pa.table(RowStream(sorted((tmp_path / "out").glob("*.ndjson")))).sort_by("row")
    assert {
        name: "list" if pa.types.is_list(kind) else str(kind)
        for name, kind in zip(read.column_names, read.schema.types, strict=True)
    } == COLUMNS
    assert [b"Hello, World!"] * 100 == read["body"].to_pylist()


def test_no_parts_are_a_table_without_rows() -> None:
    read = pa.table(RowStream([]))
    assert (0, list(COLUMNS)) == (read.num_rows, read.column_names)


def test_a_stream_that_is_not_read_is_released(parts: list[Path]) -> None:
    stream = RowStream(parts)
    for _ in range(100):
        stream.__arrow_c_stream__()
        next(iter(stream)).__arrow_c_array__()
    reader = pa.RecordBatchReader.from_stream(stream)
    reader.read_next_batch()
    del stream
    assert reader.read_all().num_rows > 0


def test_a_batch_outlives_its_stream_and_its_files(parts: list[Path], tmp_path: Path) -> None:
    copy = tmp_path / parts[0].name
    copy.write_bytes(parts[0].read_bytes())
    batch = pa.record_batch(next(iter(RowStream([copy]))))
    copy.unlink()
    batch.validate(full=True)
    assert {"GET"} == set(batch["method"].to_pylist())


def test_damage_is_an_error_that_names_the_file(parts: list[Path], tmp_path: Path) -> None:
    damaged = tmp_path / "part-00000002.parquet"
    damaged.write_bytes(parts[0].read_bytes()[:-20])
    stream = RowStream([parts[0], damaged])

    with pytest.raises(
        OutputError, match=f"^{damaged}: damaged: .*; restore it from a copy; or headgate verify --repair"
    ):
        list(stream)
    with pytest.raises(OSError, match=f"{damaged}: damaged: "):
        pa.table(stream)


def test_a_missing_part_is_an_error_that_names_the_file(parts: list[Path], tmp_path: Path) -> None:
    missing = tmp_path / "part-00000002.parquet"
    stream = RowStream([parts[0], missing])
    batches = iter(stream)
    with pytest.raises(OutputError, match=f"can't read {missing}: no such file or directory"):
        list(batches)
    assert [] == list(batches), "it ends after an error"
    with pytest.raises(OutputError, match=f"can't read {missing}: no such file or directory"):
        RowStream([missing])


def test_threads_share_one_iteration(parts: list[Path]) -> None:
    batches = iter(RowStream(parts))
    rows: list[int] = []

    def take() -> None:
        rows.extend(row for batch in batches for row in pa.record_batch(batch)["row"].to_pylist())

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert list(range(ROWS)) == sorted(rows)


def test_no_arrow_library_is_needed(parts: list[Path]) -> None:
    code = (
        "import sys; from headgate import RowStream;"
        "stream = RowStream(sys.argv[1:]); capsules = [batch.__arrow_c_array__() for batch in stream];"
        "print(len(capsules), *{'pyarrow', 'polars', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code, *parts], check=True, capture_output=True, text=True)
    assert str(len(list(RowStream(parts)))) == done.stdout.strip()
