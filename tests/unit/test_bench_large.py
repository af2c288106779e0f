"""How bench/durability.py judges a job of very many rows."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from durable import large
from durable.large import Run, Sample, Story
from harness import read_back
from harness.read_back import Block, Everything
from harness.servers import BODY
from support.trials import trial


def run(number: int, code: int, **other: Any) -> Run:
    made: dict[str, Any] = {"seconds": 10.0, "cpu_s": 5.0, "requests": 400, "peak_rss_bytes": 40_000_000}
    return Run(run=number, code=code, **(made | other))


def story(*runs: Run) -> Story:
    sample = Sample(run=1, at_s=0.0, requests=0, rss_bytes=1, peak_rss_bytes=2)
    wrk = [trial("wrk", 1, 30), trial("wrk", 2, 50)]
    return Story(rows=1_000, runs=list(runs), samples=[sample], wrk=wrk, result_bytes=1)


KILLED_TWICE = (run(1, -9), run(2, -9), run(3, 0))


def test_two_kills_and_an_end_are_as_they_should_be() -> None:
    assert [] == large.mistakes(story(*KILLED_TWICE))


def test_everything_that_went_otherwise_is_named() -> None:
    printed = story(run(1, -9), run(2, 0, requests=100), run(3, 3, requests=100))
    printed.wrk.append(trial("wrk", 3, 1, wrong="lost"))
    expected = [
        "wrk: lost",
        "run 2 was not killed: exit code 0",
        "run 3: exit code 3",
        "600 requests for 1,000 rows",
    ]
    assert expected == large.mistakes(printed)


def test_the_rate_is_that_of_rows_and_the_time_that_of_all_runs() -> None:
    found = large.finding(story(run(1, -9), run(2, -9, peak_rss_bytes=50_100_000), run(3, 0)))
    assert [
        ("rows/s / wrk's requests/s: at least 0.95", "0.83", False),
        ("peak memory: at most 50 MB", "50.1 MB", False),
    ] == [(target.promise, target.shown, target.met) for target in found.targets]
    assert "200 rows were asked again" in found.text
    assert ["wrk", "wrk", "run", "run", "run", "sample", "results"] == [record["what"] for record in found.raw]

    found = large.finding(story(*(run(number, 0, seconds=8.0) for number in (1, 2, 3))))
    assert [("1.04", True), ("40.0 MB", True)] == [(target.shown, target.met) for target in found.targets]


def write(part: Path, rows: list[int], status: int = 200, body: bytes = BODY) -> None:
    columns = {"row": rows, "status": [status] * len(rows), "body": [body] * len(rows)}
    pq.write_table(pa.table(columns), part)


def test_every_row_that_is_there_once_is_found(tmp_path: Path) -> None:
    write(tmp_path / "part-00000001.parquet", [2, 0])
    write(tmp_path / "part-00000002.parquet", [3, 1])
    seen = read_back.everything(tmp_path, 4)
    assert Everything(4, [Block(first=0, rows=4, found=4, distinct=4, right=4)]) == seen
    assert [] == large.missing_rows(seen, 4)


@pytest.mark.parametrize(
    ("expected", "rows", "status", "body"),
    [
        (["the results have 3 rows, not 4", "3 found, 3 of them different, 3 right"], [0, 1, 2], 200, BODY),
        (["4 found, 3 of them different, 4 right"], [0, 1, 1, 2], 200, BODY),
        (["3 found, 3 of them different, 3 right"], [0, 1, 2, 4], 200, BODY),
        (["4 found, 4 of them different, 0 right"], [0, 1, 2, 3], 503, BODY),
        (["4 found, 4 of them different, 0 right"], [0, 1, 2, 3], 200, b"other"),
    ],
    ids=["one too few", "one twice", "one of another job", "a failure", "another body"],
)
def test_what_is_not_as_it_should_be_is_found(
    expected: list[str], rows: list[int], status: int, body: bytes, tmp_path: Path
) -> None:
    write(tmp_path / "part-00000001.parquet", rows, status, body)
    found = large.missing_rows(read_back.everything(tmp_path, 4), 4)
    assert expected == [mistake.removeprefix("rows 0 to 3: ") for mistake in found]
