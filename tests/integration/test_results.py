import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from support.origin import responding
from support.results import COLUMNS, rows, table
from support.run import headgate, serving, started, stats

ROWS = 2_500


@pytest.fixture(scope="module")
def results(server: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("results") / "out"
    headgate("fetch", f"{server}/[0-{ROWS - 1}]", "-o", directory, "-c", "50", check=0)
    return directory


def test_pyarrow_reads_exactly_the_promised_columns(results: Path) -> None:
    schema = table(results).schema
    assert COLUMNS == {field.name: "list" if pa.types.is_list(field.type) else str(field.type) for field in schema}
    header = schema.field("headers").type.value_type
    assert [("name", "string"), ("value", "binary")] == [(field.name, str(field.type)) for field in header]


def test_every_row_is_there_once_with_its_response(results: Path, server: str) -> None:
    found = rows(results)
    assert list(range(ROWS)) == [row["row"] for row in found]
    assert [f"{server}/{row}" for row in range(ROWS)] == [row["url"] for row in found]
    assert {("GET", 200, None, 1, b"Hello, World!", 13, "HTTP/1.1")} == {
        (
            row["method"],
            row["status"],
            row["error"],
            row["attempts"],
            row["body"],
            row["received_bytes"],
            row["http_version"],
        )
        for row in found
    }


def test_times_and_addresses_are_plausible(results: Path, server: str) -> None:
    now = datetime.now(tz=UTC)
    for row in rows(results):
        assert now - timedelta(minutes=5) < row["started_at"] <= now
        assert 0 < row["ttfb_us"] <= row["elapsed_us"] < 60_000_000
        assert row["remote_addr"] == server.removeprefix("http://")
        assert row["final_url"] is None


def test_headers_are_kept_as_they_came(results: Path) -> None:
    headers = {header["name"].lower(): header["value"] for header in rows(results)[0]["headers"]}
    assert headers["content-length"] == b"13"


def test_duckdb_reads_the_results(results: Path) -> None:
    query = f"select count(*), sum(received_bytes), min(status), max(row) from '{results}/*.parquet'"  # noqa: S608 - ours
    assert [(ROWS, 13 * ROWS, 200, ROWS - 1)] == duckdb.execute(query).fetchall()


def test_readers_that_take_a_directory_find_no_file_that_is_not_of_results(results: Path) -> None:
    assert ROWS == pq.read_table(results).num_rows
    assert ROWS == ds.dataset(results).count_rows()
    for place in (results, f"{results}/**/*.parquet"):
        assert [(ROWS,)] == duckdb.execute("select count(*) from read_parquet(?)", [str(place)]).fetchall()
    assert ROWS == pl.read_parquet(results, use_pyarrow=True).height
    assert ROWS == pl.scan_parquet(results / "**/*.parquet").select(pl.len()).collect().item()


def test_polars_reads_the_results(results: Path) -> None:
    frame = pl.read_parquet(results / "*.parquet")
    assert list(COLUMNS) == frame.columns
    assert (ROWS, 13 * ROWS) == (frame.height, frame["received_bytes"].sum())


def test_failed_rows_are_in_files_of_their_own(server: str, tmp_path: Path) -> None:
    source = tmp_path / "urls.txt"
    source.write_text(f"{server}/1\n{server}/fault/refuse\n{server}/2\n")
    done = headgate("fetch", source, "-o", tmp_path / "out", check=3)
    succeeded, failed = table(tmp_path / "out"), list((tmp_path / "out").glob("failed-*.parquet"))
    assert (3, 1) == (succeeded.num_rows, len(failed))
    assert [None, "connection_closed", None] == succeeded["error"].to_pylist()
    assert "connection_closed" in done.stderr, "the summary names the kind of error"


@pytest.mark.parametrize(("expected", "fail_on"), [([503], []), ([], ["none"]), ([200, 404], ["200,404"])])
def test_the_user_says_which_statuses_are_failures(
    expected: list[int], fail_on: list[str], server: str, tmp_path: Path
) -> None:
    out, flags = tmp_path / "out", ["--fail-on", *fail_on] if fail_on else []
    headgate("fetch", f"{server}/status/{{200,404,503}}", "-o", out, *flags, check=3 if expected else 0)
    failed = [status for part in out.glob("failed-*") for status in pq.read_table(part)["status"].to_pylist()]
    assert expected == sorted(failed)
    assert [None] * 3 == table(out)["error"].to_pylist()


def test_kept_columns_come_under_their_own_names_and_types(server: str, tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text(f"id,link,note\n7,{server}/a,x\n8,{server}/b,\n")
    headgate("fetch", source, "-o", tmp_path / "out", "--url-column", "link", "--keep", "id", "--keep", "note", check=0)
    found = table(tmp_path / "out")
    assert [*COLUMNS, "id", "note"] == found.column_names
    assert ["7", "8"] == found["id"].to_pylist()


def test_head_reads_the_first_rows_only(server: str, tmp_path: Path) -> None:
    headgate("fetch", f"{server}/[1-1000000]", "-o", tmp_path / "out", "--max-rows", "10", check=0)
    assert list(range(10)) == table(tmp_path / "out")["row"].to_pylist()


def test_ndjson_holds_text_as_text_and_bytes_as_base64(server: str) -> None:
    found = headgate("fetch", "-", "-o", "-", stdin=f"{server}/hello\n{server}/encoded/gzip/20\n", check=0).rows()
    assert "Hello, World!" == found[0]["body"]
    assert found[0].get("body_base64") is None
    assert [200, 200] == [row["status"] for row in found]
    assert 20 == len(found[1]["body"])


def test_a_request_body_arrives_byte_for_byte(server: str, tmp_path: Path) -> None:
    sent = bytes(range(256))
    (tmp_path / "body").write_bytes(sent)
    echo = headgate("fetch", f"{server}/echo", "-o", "-", "-d", f"@{tmp_path / 'body'}", check=0).rows()[0]
    assert sent == base64.b64decode(json.loads(echo["body"])["body_base64"])


def test_a_reader_that_comes_late_misses_no_row() -> None:
    rows = 2000
    # Delays spread the responses over many small batches, so that every queue between worker and pipe is full.
    with (
        serving("--delay", "0..0.5") as url,
        started("fetch", f"{url}/[1-{rows}]", "-o", "-", "-c", "500", "-q") as fetch,
    ):
        while stats(url)["responses"].get("200", 0) < rows:
            pass
        assert fetch.stdout is not None
        read = [json.loads(line)["row"] for line in fetch.stdout]
    assert list(range(rows)) == sorted(read)


def test_ndjson_goes_into_a_directory(server: str, tmp_path: Path) -> None:
    headgate("fetch", f"{server}/[1-3]", "-o", tmp_path / "out", "--format", "ndjson", check=0)
    lines = [line for part in (tmp_path / "out").glob("*.ndjson") for line in part.read_text().splitlines()]
    assert 3 == len(lines)


def test_nothing_is_written_with_the_format_none(server: str, tmp_path: Path) -> None:
    done = headgate("fetch", f"{server}/[1-100]", "--format", "none", "--summary", tmp_path / "s.json", check=0)
    assert ["s.json"] == [path.name for path in tmp_path.iterdir()]
    assert "done: 100 rows" in done.stderr


def test_a_body_that_is_no_text_is_base64_in_ndjson() -> None:
    body = bytes(range(256))
    with responding(body) as server:
        row = headgate("fetch", f"{server}/", "-o", "-", check=0).rows()[0]
    assert (None, body) == (row.get("body"), base64.b64decode(row["body_base64"]))
