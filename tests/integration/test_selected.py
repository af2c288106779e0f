"""Columns that are selected from responses have their values and types, for every reader."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate
from support.origin import changing
from support.run import headgate as command, serving

COMPLETION = {
    "choices": [{"message": {"role": "assistant", "content": "Hé"}}],
    "usage": {"total_tokens": 17, "cost": 0.25},
    "created": 1_778_751_000,
    "done": True,
}
SELECT = {
    "answer": "$.choices[0].message.content",
    "tokens:int64": "$.usage.total_tokens",
    "cost:float64": "$.usage.cost",
    "price:decimal(20,2)": "$.usage.cost",
    "created:timestamp": "$.created",
    "done:bool": "$.done",
    "messages:json": "$.choices[*].message",
    "length:int64": "header:content-length",
}
TYPES = {
    "answer": pa.string(),
    "tokens": pa.int64(),
    "cost": pa.float64(),
    "price": pa.decimal128(20, 2),
    "created": pa.timestamp("us", "UTC"),
    "done": pa.bool_(),
    "messages": pa.string(),
    "length": pa.int64(),
}


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def values(body: bytes) -> dict[str, Any]:
    return {
        "answer": "Hé",
        "tokens": 17,
        "cost": 0.25,
        "price": Decimal("0.25"),
        "created": datetime(2026, 5, 14, 9, 30, tzinfo=UTC),
        "done": True,
        "messages": json.dumps([{"role": "assistant", "content": "Hé"}], separators=(",", ":"), ensure_ascii=False),
        "length": len(body),
    }


def test_the_result_is_the_table_with_columns_from_the_responses() -> None:
    body = json.dumps(COMPLETION, separators=(",", ":"), ensure_ascii=False).encode()
    with changing(body) as origin:
        table = pa.table({"id": pa.array([7, 8], pa.int32()), "url": [f"{origin.url}/{row}" for row in (7, 8)]})
        pq.write_table(table, "rows.parquet")
        job = headgate.fetch(
            "rows.parquet", "out", keep="*", extract=SELECT, require="answer,tokens", drop=["headers", "body"]
        )
        assert job.succeeded == 2
    (part,) = Path("out").glob("part-*.parquet")
    results = pq.read_table(part).sort_by("row")
    assert ["remote_addr", *TYPES, "id"] == results.column_names[-10:]
    assert TYPES | {"id": pa.int32()} == {name: results.schema.field(name).type for name in [*TYPES, "id"]}
    assert [values(body) | {"id": row} for row in (7, 8)] == results.select([*TYPES, "id"]).to_pylist()
    assert {"headers", "body"}.isdisjoint(results.column_names)
    (found,) = duckdb.sql("select sum(tokens), max(messages->>'$[0].content') from 'out/*.parquet'").fetchall()
    assert (34, "Hé") == found
    assert 2 == pa.table(headgate.Job.open("out").rows()).num_rows
    assert "answer" in command("show", "out", check=0).stdout


def test_responses_without_required_values_are_failed_rows_that_can_be_retried() -> None:
    with changing(b'{"error": "busy"}') as origin:
        flags = ("--extract", "a:int64=$.a", "--extract", "error_text=$.error", "--require", "a")
        omit = ("--drop", "body,headers,url,error_message", "--format", "ndjson", "-y", "-q")
        command("fetch", f"{origin.url}/[1-3]", "-o", "out", *flags, *omit, check=3)
        shown = command("show", "out", "--failed", check=0).stdout
        assert "unexpected_response" in shown
        origin.body = b'{"a": 42}'
        assert headgate.Job.open("out").retry().succeeded == 3
    rows = pa.table(headgate.Job.open("out").rows()).to_pylist()
    assert [(42, None, 2)] * 3 == [(row["a"], row["error_text"], row["attempts"]) for row in rows]


PRICES = b'[0.1, 19.99, 12345678901234567890.12, 1e3, "1.50", 1.500, 0.001, 1000000000000000000000, null]'
EXACT = [*map(Decimal, ("0.10", "19.99", "12345678901234567890.12", "1000.00", "1.50", "1.50")), None, None, None]


@pytest.mark.parametrize("file_format", ["parquet", "ndjson"])
def test_a_decimal_has_the_digits_that_the_server_wrote(file_format: str) -> None:
    columns = {f"p{index}:decimal(22,2)": f"$[{index}]" for index in range(len(EXACT))}
    with changing(PRICES) as origin:
        flags = [flag for name, path in columns.items() for flag in ("--extract", f"{name}={path}")]
        command("fetch", f"{origin.url}/", "-o", "out", "--format", file_format, *flags, check=0)
        with headgate.Client() as client:
            of_client = pa.table(client.fetch_many([f"{origin.url}/"]).to_arrow_batches(extract=columns))
        table = pa.table({"url": [f"{origin.url}/"]})
        of_batches = pa.table(headgate.map_batches(table, extract=columns))
    of_job = pa.table(headgate.Job.open("out").rows())
    for results in (of_job, of_client, of_batches):
        assert EXACT == [results[f"p{index}"][0].as_py() for index in range(len(EXACT))]
        assert {pa.decimal128(22, 2)} == {results.schema.field(f"p{index}").type for index in range(len(EXACT))}
    if file_format == "ndjson":
        (part,) = Path("out").glob("part-*.ndjson")
        assert '"p2":12345678901234567890.12,' in part.read_text()
    shown = command("show", "out", "--columns", "p1,p3", check=0).stdout
    assert "19.99" in shown
    assert "1000.00" in shown


def test_the_summary_names_a_column_that_never_had_a_value() -> None:
    with changing(b'{"price": 19.99}') as origin:
        flags = ("--extract", "price:decimal(20,2)=$.prce", "--extract", "found=$.price")
        shown = command("fetch", f"{origin.url}/[1-1000]", "-o", "out", *flags, check=0).stderr
    (note,) = [line for line in shown.splitlines() if "was null" in line]
    why = "was null in all 1,000 rows with a status 2xx: are its path and its type right?"
    assert note.endswith(f'--extract "price:decimal(20,2)=$.prce" {why}')


def test_an_invalid_selection_is_refused_with_its_flag() -> None:
    with serving() as url:
        for expected, flags in (
            (
                "--extract 'a=$.b[': not a JSONPath (RFC 9535): wrong from character 4 on, where \"[\"",
                ("--extract", "a=$.b["),
            ),
            (
                '--require names "b", which is not an extracted column: the extracted columns are a',
                ("--extract", "a=$.a", "--require", "b"),
            ),
            (
                (
                    "--extract 'a:decimal(2,3)=$.a': \"decimal(2,3)\" is not a type: write decimal(PRECISION,SCALE), "
                    "as in decimal(20,2): 1 to 38 digits, SCALE of them after the point"
                ),
                ("--extract", "a:decimal(2,3)=$.a"),
            ),
            (
                "--cost-from-response limits nothing without --cost-rate 150000/m or --max-cost",
                ("--extract", "a:int64=$.a", "--cost-from-response", "a"),
            ),
        ):
            errors = command("fetch", url, "-o", "out", *flags, "-q", check=2).errors()
            assert [expected.replace("'", '"')] == [error.replace("'", '"') for error in errors]
        assert not Path("out").exists()
