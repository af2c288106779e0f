"""`headgate.spark`: a stage of Spark, in one session on loopback."""

import asyncio
import os
import shutil
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import headgate.spark
from support.console import ADDRESS
from support.docstrings import check, typed
from support.documents import programs_run_by
from support.run import serving, stats

if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java: apt install openjdk-17-jre-headless", allow_module_level=True)
pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: pip install -r requirements/clusters.txt")

# Spark and its dependencies cause warnings among themselves.
pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

CORES = 2
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.log.level": "ERROR",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    "spark.sql.session.timeZone": "Europe/Berlin",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from pyspark.sql import SparkSession  # noqa: PLC0415 - may not be installed

    directory = tmp_path_factory.mktemp("spark")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master(f"local[{CORES}]")
        for name, value in SETTINGS.items():
            builder = builder.config(name, value)
        builder = builder.config("spark.local.dir", directory).config(
            "spark.sql.warehouse.dir", directory / "warehouse"
        )
        session = builder.getOrCreate()
        gateway = session.sparkContext._gateway  # noqa: SLF001 - the only way to end Java
        try:
            yield session
        finally:
            session.stop()
            gateway.shutdown()
            gateway.proc.stdin.close()
            gateway.proc.wait(200)
            pyspark.SparkContext._gateway = pyspark.SparkContext._jvm = None  # noqa: SLF001 - as above


def fetched(frame: Any, **options: Any) -> Any:
    fetch = headgate.spark.fetch(**options)
    return frame.mapInArrow(fetch, fetch.schema(frame))


def test_each_row_is_there_once_and_failures_are_rows(spark: Any, server: str) -> None:
    urls: list[tuple[int, str | None]] = [(number, f"{server}/bytes/{number}") for number in range(1000)]
    urls[7:10] = [(7, "http://127.0.0.1:9/"), (8, f"{server}/status/404"), (9, None)]
    frame = spark.createDataFrame(urls, "id long, url string").repartition(7)
    rows = fetched(frame, retries=0).orderBy("id").collect()
    assert list(range(1000)) == [row["id"] for row in rows]
    assert ["connect", None, "invalid_request"] == [row["error"] for row in rows[7:10]]
    assert 404 == rows[8]["status"]
    good = rows[:7] + rows[10:]
    assert [(200, row["id"]) for row in good] == [(row["status"], len(row["body"])) for row in good]


@pytest.mark.parametrize("name", ["spark.Fetch", "spark.Fetch.schema", "spark.fetch"])
def test_the_example_of_the_docstring_prints_what_it_shows(spark: Any, name: str, server: str) -> None:
    with asyncio.Runner() as runner:
        check(typed()[name], {"headgate": headgate, "pyarrow": pa, "spark": spark}, server, runner)


def test_one_engine_for_each_process_is_kept_over_partitions_and_actions(spark: Any) -> None:
    with serving("--delay", "0.02") as server:
        frame = spark.range(0, 800, 1, 8).withColumnRenamed("id", "number")
        for _ in range(2):
            assert 800 == fetched(frame, url=server + "/{number}", concurrency=8).count()
        seen = stats(server)
        assert (1600, 8 * CORES) == (seen["requests"], seen["max_requests_in_progress"])
        # One more connection is that of `stats`.
        assert seen["connections_accepted"] <= 8 * CORES + 1


def test_the_schema_has_what_is_selected_and_every_type_of_the_input(spark: Any, server: str) -> None:
    frame = spark.sql(
        "select 1 as id, cast(1.5 as decimal(9, 2)) as price, timestamp '2026-05-01 12:00:00' as at,"
        " date '2026-05-01' as day, array(1, 2) as numbers, map('a', 1) as counts,"
        " named_struct('x', 1, 'y', 'z') as point, binary('b') as raw,"
        " timestamp_ntz '2026-05-01 12:00:00' as wall, cast(null as string) as nothing, true as is_so, 1.5f as share"
    )
    fetch = headgate.spark.fetch(
        url=server + "/{id}",
        extract={"length:int64": "header:content-length", "exact:decimal(20,2)": "header:content-length"},
        drop=["body", "headers"],
    )
    results = frame.mapInArrow(fetch, fetch.schema(frame))
    (row,) = results.collect()
    assert (200, 13, Decimal("13.00")) == (row["status"], row["length"], row["exact"])
    assert frame.collect() == results.select(frame.columns).collect()
    assert {"body", "headers"}.isdisjoint(results.columns)


def test_the_constant_is_the_schema_without_the_input(spark: Any, server: str) -> None:
    frame = spark.range(3).withColumnRenamed("id", "number")
    fetch = headgate.spark.fetch(url=server + "/{number}", keep=())
    assert headgate.spark.SCHEMA == fetch.schema(frame)
    rows = frame.coalesce(1).mapInArrow(fetch, headgate.spark.SCHEMA).collect()
    assert [0, 1, 2] == sorted(row["row"] for row in rows)


def test_partitions_without_rows_are_none_of_the_results(spark: Any, server: str) -> None:
    frame = spark.range(0, 2, 1, 4)
    assert 2 == fetched(frame, url=server + "/{id}").count()
    assert [] == fetched(frame.where("id > 5"), url=server + "/{id}").collect()


def test_ending_early_is_no_mistake(spark: Any) -> None:
    with serving("--delay", "0.01") as server:
        assert 1 == len(fetched(spark.range(0, 5000, 1, 1), url=server + "/{id}", concurrency=4).take(1))
        assert stats(server)["requests"] < 5000


def test_a_missing_column_is_named_before_a_worker_starts(spark: Any, server: str) -> None:
    fetch = headgate.spark.fetch(url=server + "/{nr}")
    with pytest.raises(headgate.InputError, match='there is no column "nr" for url; the columns are "id"'):
        fetch.schema(spark.range(3))


@pytest.mark.usefixtures("spark")
def test_the_program_of_the_page_runs(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    (program,) = programs_run_by("docs/clusters.md", "tests/integration/test_spark.py")
    variables: dict[str, Any] = {}
    exec(program.replace(ADDRESS, server), variables)  # noqa: S102 - our own
    assert {200: 1000} == dict(variables["results"].groupBy("status").count().collect())
    assert "|number|status|error|" in capsys.readouterr().out


def test_a_schema_needs_no_session() -> None:
    assert ["row", "url", "method", "status", "failed"] == headgate.spark.SCHEMA.names[:5]
