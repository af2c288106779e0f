"""Jobs whose rows come from a Python iterable."""

import asyncio
import datetime as dt
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import headgate
from support.results import rows
from support.run import stats, wait_for


def test_urls_and_mappings_are_rows_in_order(server: str, tmp_path: Path) -> None:
    urls = (f"{server}/hello?{number}" for number in range(2000))
    summary = headgate.fetch(urls, tmp_path / "urls", concurrency=50)
    assert (2000, 0) == (summary.succeeded, summary.failed)
    assert [f"{server}/hello?{row}" for row in range(2000)] == [row["url"] for row in rows(tmp_path / "urls")]

    day = dt.date(2026, 5, 14)
    table = [{"url": f"{server}/hello", "id": number, "day": day, "tags": ["é"]} for number in range(3)]
    headgate.fetch(table, tmp_path / "table", keep=["id", "day"])
    assert [("0", "2026-05-14"), ("1", "2026-05-14")] == [
        (str(row["id"]), row["day"]) for row in rows(tmp_path / "table")[:2]
    ]


def test_a_row_that_arrives_is_sent_before_the_next_one_exists(server: str, tmp_path: Path) -> None:
    before = stats(server)["requests"]

    def slowly() -> Iterator[str]:
        for number in range(1, 4):
            yield f"{server}/hello?slow{number}"
            wait_for(lambda expected=before + number: bool(stats(server)["requests"] >= expected))  # type: ignore[misc] # a lambda's default

    assert 3 == headgate.fetch(slowly(), tmp_path / "out").succeeded


def test_an_error_of_the_iterable_stops_the_job_and_is_raised(server: str, tmp_path: Path) -> None:
    def failing() -> Iterator[dict[str, Any]]:
        for number in range(1000):
            yield {"url": f"{server}/hello?{number}"}
        raise LookupError("the database is gone")

    with pytest.raises(LookupError, match="the database is gone") as raised:
        headgate.fetch(failing(), tmp_path / "out")
    note = "headgate stopped the run: rows before this error whose requests had not started are not done"
    assert [note] == raised.value.__notes__
    status = headgate.Job.open(tmp_path / "out").status()
    assert (False, False) == (status.finished, status.resumable)


def test_a_first_row_that_is_wrong_replaces_no_results(server: str, tmp_path: Path) -> None:
    headgate.fetch([f"{server}/hello"], tmp_path / "out")
    with pytest.raises(TypeError, match="a row has a value of type bytes"):
        headgate.fetch([{"url": server, "x": b"1"}], tmp_path / "out", if_exists="overwrite")
    assert 1 == len(rows(tmp_path / "out"))


@pytest.mark.parametrize(
    ("message", "row"),
    [
        ("a row must be a URL, or a mapping of columns to values, not int", 5),
        ("a row has a value of type bytes, which JSON does not have", {"url": "http://a/", "x": b"1"}),
    ],
)
def test_a_row_of_another_type_is_refused(message: str, row: object, server: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=message):
        headgate.fetch([f"{server}/hello", row], tmp_path / "out")  # type: ignore[list-item] # the mistake under test


@pytest.mark.parametrize("nothing", [iter(()), filter(None, [""])])
def test_an_iterator_without_rows_is_an_empty_input(nothing: Any, tmp_path: Path) -> None:
    assert 0 == headgate.fetch(nothing, tmp_path / "out").rows
    (tmp_path / "empty.txt").touch()
    assert 0 == headgate.fetch(tmp_path / "empty.txt", tmp_path / "of-file").rows
    assert 0 == len(rows(tmp_path / "out"))
    assert headgate.Job.open(tmp_path / "out").status().finished


async def asynchronously() -> AsyncIterator[str]:
    yield "http://127.0.0.1:1/"


@pytest.mark.parametrize(
    ("message", "given"),
    [
        (r"not Table: headgate.fetch_table takes tables, and .to_pylist\(\) makes rows of it", pa.table({"url": [1]})),
        (r"not DataFrame: .* and .to_dict\('records'\) makes rows of it", pd.DataFrame({"url": [1]})),
        (r"not DataFrame: .* and .to_dicts\(\) makes rows of it", pl.DataFrame({"url": [1]})),
        ("not async_generator: AsyncClient.fetch_many and amap_batches read an async iterable", asynchronously()),
    ],
)
def test_an_input_that_other_functions_take_is_refused_with_them(message: str, given: Any, tmp_path: Path) -> None:
    with pytest.raises(headgate.UsageError, match=f"input must be a path, text, or a list of them, {message}"):
        headgate.fetch(given, tmp_path / "out")


def test_a_first_item_that_is_neither_a_path_nor_a_row_is_refused_as_a_row(tmp_path: Path) -> None:
    for wrong in ([1, 2], (None,)):
        given: Any = wrong
        with pytest.raises(TypeError, match="a row must be a URL, or a mapping of columns to values, not"):
            headgate.fetch(given, tmp_path / "out")


@pytest.mark.parametrize("kind", [pd.Series, pl.Series])
def test_a_column_of_urls_is_an_iterable_of_rows(kind: Any, server: str, tmp_path: Path) -> None:
    assert 2 == headgate.fetch(kind([f"{server}/hello"] * 2), tmp_path / "out").succeeded


def test_a_message_about_an_earlier_iterable_has_no_path_of_a_pipe(server: str, tmp_path: Path) -> None:
    headgate.fetch([f"{server}/status/503"], tmp_path / "out", retries=0)
    with pytest.raises(
        headgate.OutputError, match="a job that read the rows of an iterable, which can't be read again"
    ):
        headgate.fetch([f"{server}/hello"], tmp_path / "out")
    with pytest.raises(headgate.OutputError, match="read the rows of an iterable, which can't be read again"):
        headgate.Job.open(tmp_path / "out").retry()


def test_a_job_that_cannot_start_leaves_nothing(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    with pytest.raises(headgate.UsageError, match="timeout"):
        headgate.fetch([f"{server}/hello"], tmp_path / "out", timeout=-1)
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with pytest.raises(headgate.OutputError):
        headgate.fetch([f"{server}/hello"], tmp_path / "taken")
    assert 1 == headgate.fetch([f"{server}/hello"] * 100_000, tmp_path / "out", max_rows=1).succeeded
    assert [] == list((tmp_path / "temporary").iterdir())


def test_the_rows_of_a_run_in_the_background(server: str, tmp_path: Path) -> None:
    with headgate.start((f"{server}/hello" for _ in range(10)), tmp_path / "sync") as run:
        assert 10 == run.wait().succeeded

    async def in_a_loop() -> int:
        return (await headgate.start([{"url": f"{server}/hello"}] * 10, tmp_path / "async")).succeeded

    assert 10 == asyncio.run(in_a_loop())


def test_a_list_of_paths_is_still_a_list_of_inputs(server: str, tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(f"{server}/hello\n")
    assert 2 == headgate.fetch((tmp_path / name for name in ("a.txt", "b.txt")), tmp_path / "out").succeeded
