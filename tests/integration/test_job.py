"""`headgate.Job`: an existing job, from Python."""

from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import headgate
from support.origin import changing
from support.results import COLUMNS, Format


def test_a_job_is_opened_inspected_and_retried(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses |= {"/2": 503, "/4": 429}
        headgate.fetch(f"{origin.url}/[1-5]", out)
        job = headgate.Job.open(out)
        status = job.status()
        assert (5, 3, 2, {"status:429": 1, "status:503": 1}, True, False) == (
            status.rows,
            status.succeeded,
            status.failed,
            status.errors,
            status.finished,
            status.running,
        )
        origin.statuses = {}
        summary = job.retry(only=["status:503"])
        assert (1, 1, 0) == (summary.rows, summary.succeeded, summary.failed)
        assert summary.job is not None
        assert (4, 1, summary.has_failed_rows) == (summary.job.succeeded, summary.job.failed, True)
        assert not job.retry(concurrency=2).has_failed_rows
    assert ["fetch", "retry", "retry"] == [run.command for run in job.status().runs]
    assert f"headgate.Job.open({str(out)!r})" == repr(job)


@pytest.mark.parametrize("form", ["parquet", "ndjson"])
def test_the_rows_of_all_parts_are_read_succeeded_ones_first(form: Format, tmp_path: Path) -> None:
    with changing() as origin:
        origin.statuses["/2"] = 503
        headgate.fetch(f"{origin.url}/[1-5]", tmp_path, format=form)
    rows = headgate.Job.open(tmp_path).rows()
    table = pa.table(rows)
    assert (list(COLUMNS), 5) == (table.column_names, table.num_rows)
    assert ([200, 200, 200, 200, 503], 1) == (table["status"].to_pylist(), table["row"].to_pylist()[-1])
    # The rows are read anew for each caller.
    batches = list(rows)
    assert 5 == sum(batch.num_rows for batch in batches)
    assert table["row"].to_pylist() == [row for batch in batches for row in pa.record_batch(batch)["row"].to_pylist()]
    assert {0, 1, 2, 3, 4} == set(pl.DataFrame(rows)["row"])
    count = "select count(*), count(*) filter (status = 503) from rows"
    assert (5, 1) == duckdb.connect().execute(count).fetchone()


def test_a_job_without_rows_still_has_columns(tmp_path: Path) -> None:
    (tmp_path / "urls.txt").write_text("")
    headgate.fetch(tmp_path / "urls.txt", tmp_path / "out")
    table = pa.table(headgate.Job.open(tmp_path / "out").rows())
    assert (list(COLUMNS), 0) == (table.column_names, table.num_rows)


def test_where_there_is_no_job_it_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(headgate.OutputError, match="contains no job"):
        headgate.Job.open(tmp_path)
    with pytest.raises(headgate.OutputError, match="no such directory"):
        headgate.Job.open(tmp_path / "no")
    with pytest.raises(headgate.UsageError, match="output is missing"):
        headgate.Job.open("")


def test_all_mistakes_of_a_retry_are_named_at_once(tmp_path: Path) -> None:
    job = headgate.Job(str(tmp_path))
    with pytest.raises(headgate.UsageError) as raised:
        job.retry(only=5, concurrency=0, headers="a")  # type: ignore[arg-type] # what is tested
    mistakes = str(raised.value).split("; ")
    assert ["only must be", "headers must", "concurrency "] == [mistake[:12] for mistake in mistakes]
    with pytest.raises(TypeError, match="did you mean concurrency"):
        job.retry(concurency=5)  # type: ignore[call-arg] # what is tested


def test_a_list_of_kinds_that_came_out_empty_does_not_mean_all(tmp_path: Path) -> None:
    empties: list[list[str] | str] = [[], "", ["timeout", ""]]
    for empty in empties:
        with pytest.raises(headgate.UsageError, match=r"^only (is|names an) empty"):
            headgate.Job(str(tmp_path)).retry(only=empty)


def test_errors_name_the_arguments_of_the_call_and_not_flags(tmp_path: Path) -> None:
    with changing() as origin:
        headgate.fetch(f"{origin.url}/[1-2]", tmp_path)
        with pytest.raises(
            headgate.OutputError, match="replace them with if_exists='overwrite', or choose another output"
        ):
            headgate.fetch(f"{origin.url}/[1-2]", tmp_path, if_exists="error")
        with pytest.raises(
            headgate.OutputError, match=r": method was not given, now it is PUT; .* if_exists='overwrite'"
        ):
            headgate.fetch(f"{origin.url}/[1-2]", tmp_path, method="PUT")
    with pytest.raises(headgate.UsageError, match=r"^only names 'teapot', which is neither a status"):
        headgate.Job.open(tmp_path).retry(only=["teapot"])


def test_a_retry_of_another_request_is_refused(tmp_path: Path) -> None:
    with changing() as origin:
        origin.statuses["/1"] = 503
        headgate.fetch(f"{origin.url}/[1-2]", tmp_path, headers={"X-A": "secret"})
        with pytest.raises(headgate.OutputError, match="their values aren't stored"):
            headgate.Job.open(tmp_path).retry()
