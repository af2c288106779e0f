"""Kept columns of Parquet files have the types and values of the input, for every reader."""

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support.run import headgate

DAY_MS = 86_400_000
PRICE = Decimal("1.50")


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def columns() -> Iterator[pa.Array]:
    """Returns a column of each type that pyarrow can write into Parquet."""
    for unit in ("s", "ms", "us", "ns"):
        yield pa.array([1_778_751_000, None], pa.timestamp(unit))
        # Parquet has no unit for seconds: they come as milliseconds, and with another name of the zone
        yield pa.array([1_778_751_000, None], pa.timestamp(unit, "UTC" if unit == "s" else "Europe/Zurich"))
        yield pa.array([1_778_751_000, None], pa.duration(unit))
    for number in ("8", "16", "32", "64"):
        yield pa.array([7, None], f"int{number}")
        yield pa.array([7, None], f"uint{number}")
    for fraction in (pa.float16(), pa.float32(), pa.float64()):
        yield pa.array([1.5, None], fraction)
    for decimal in (pa.decimal32(5, 2), pa.decimal64(15, 2), pa.decimal128(30, 2), pa.decimal256(38, 2)):
        yield pa.array([PRICE, None], decimal)
    for of_day in (pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")):
        yield pa.array([7, None], of_day)
    for text in (pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary(3)):
        yield pa.array(["abc", None], text)
    for date in (pa.date32(), pa.date64()):
        yield pa.array([DAY_MS if date == pa.date64() else 1, None], date)
        yield pa.array([[None], None], pa.list_(date))
        yield pa.array([{"day": None}, None], pa.struct([("day", date)]))
        yield pa.array([[("a", None)], None], pa.map_(pa.string(), date))
    yield pa.array([True, None])
    yield pa.nulls(2)
    yield pa.array([[1, None], None], pa.large_list(pa.int64()))
    yield pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    yield pa.array([bytes(16), None], pa.uuid())
    yield pa.array(["{}", None], pa.json_())


def kept(*columns: str, form: str = "parquet") -> Path:
    """Returns the part of a job that keeps these columns of `rows.parquet`, in the order of the input."""
    keep = [flag for column in columns for flag in ("--keep", column)]
    command = ["fetch", "rows.parquet", "-o", "out", "--format", form, "--if-exists", "overwrite", "-y", "-c", "1"]
    headgate(*command, *keep, check=0)
    [part] = Path("out").glob(f"part-*.{form}")
    return part


def as_readers_see(path: Path, name: str) -> dict[str, Any]:
    """Returns the types and values of a column."""
    read = pq.read_table(path, columns=[name])
    relation = duckdb.sql(f"select {name}, {name}::VARCHAR as text from '{path}'")  # noqa: S608 - our own names
    return {
        "pyarrow": (read.schema.field(name).type, read[name]),
        "duckdb": (relation.types[0], relation.select("text").fetchall()),
        "polars": pl.read_parquet(path, columns=[name]).schema[name],
    }


def write(server: str, *columns: pa.Array) -> list[str]:
    """Returns the names of the columns."""
    named = {f"c{index}": column for index, column in enumerate(columns)}
    pq.write_table(pa.table({"url": [f"{server}/1", f"{server}/2"], **named}), "rows.parquet")
    return [*named]


def test_every_reader_finds_the_types_and_values_of_the_input(server: str) -> None:
    other = []
    names = write(server, *columns())
    part = kept(*names)
    for name, column in zip(names, columns(), strict=True):
        expected, found = as_readers_see(Path("rows.parquet"), name), as_readers_see(part, name)
        if "date64" in str(column.type):
            # polars reads these as points in time, pyarrow and DuckDB do not
            del expected["polars"]
        other += [(str(column.type), key, value, found[key]) for key, value in expected.items() if value != found[key]]
    assert [] == other


def test_a_date_of_64_bits_is_a_date_to_every_reader_in_both_formats(server: str) -> None:
    (name,) = write(server, pa.array([DAY_MS, -DAY_MS], pa.date64()))
    found = as_readers_see(kept(name), name)
    assert (pa.date32(), "DATE", pl.Date) == (found["pyarrow"][0], found["duckdb"][0], found["polars"])
    lines = [json.loads(line)[name] for line in kept(name, form="ndjson").read_text().splitlines()]
    assert ["1970-01-02", "1969-12-31"] == lines


def test_dictionaries_come_out_as_their_values(server: str) -> None:
    (name,) = write(server, pa.array(["a", "b"]).dictionary_encode())
    assert pa.string() == as_readers_see(kept(name), name)["pyarrow"][0]


@pytest.mark.parametrize(
    "value", ["uuid()", "'{}'::JSON", "'10:00:00+01'::TIMETZ", "DATE '2026-05-14'", "1.5::DECIMAL(38,3)", "'a'::BLOB"]
)
def test_duckdb_finds_what_it_wrote(value: str, server: str) -> None:
    duckdb.sql(f"copy (select '{server}/1' as url, {value} as it) to 'rows.parquet'")
    expected = as_readers_see(Path("rows.parquet"), "it")
    assert expected["duckdb"] == as_readers_see(kept("it"), "it")["duckdb"]


def test_an_interval_is_refused_by_name(server: str) -> None:
    duckdb.sql(f"copy (select '{server}/1' as url, INTERVAL 14 MONTH as span) to 'rows.parquet'")
    for form in ("parquet", "ndjson"):
        done = headgate("fetch", "rows.parquet", "-o", "out", "--keep", "span", "--format", form, check=2)
        assert done.errors()[0].startswith('rows.parquet: the column "span" can\'t be kept: its type is Interval')
        assert not Path("out").exists()
