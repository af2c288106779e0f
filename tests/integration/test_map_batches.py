"""`headgate.map_batches` and `headgate.fetch_table`: tables in, tables out, on one engine of the process."""

import asyncio
import os
import resource
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from typing import Any

import pyarrow as pa
import pytest

import headgate
from support.run import serving, stats, wait_for


def ids(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"id": range(start, stop), "name": [f"n{number}" for number in range(start, stop)]})


def table_of(batches: Iterator[Any]) -> pa.Table:
    return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])


def in_order(results: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.table(results).sort_by("row").to_pylist()
    return rows


def test_the_result_is_the_table_with_the_columns_of_results(server: str) -> None:
    batches = [ids(0, 10), ids(10, 13)]
    rows = in_order(table_of(headgate.map_batches(batches, url=server + "/bytes/{id}")))
    assert [(n, f"{server}/bytes/{n}", 200, n, n, f"n{n}") for n in range(13)] == [
        tuple(row[name] for name in ("row", "url", "status", "received_bytes", "id", "name")) for row in rows
    ]


def test_the_columns_are_those_of_fetch(server: str, tmp_path: Any) -> None:
    source = tmp_path / "urls.csv"
    source.write_text(f"url,id\n{server}/1,a\n")
    headgate.fetch(source, tmp_path / "out", keep=["id"])
    expected = pa.table(headgate.Job.open(tmp_path / "out").rows()).schema
    table = pa.table({"url": [f"{server}/1"], "id": ["a"]})
    assert expected.names == pa.table(headgate.fetch_table(table)).schema.names
    assert expected.types == pa.table(headgate.fetch_table(table)).schema.types


def test_batches_of_results_are_a_valid_input(server: str) -> None:
    first = headgate.map_batches(ids(0, 5), url=server + "/{id}", drop=["body", "headers"], keep=["id"])
    again = headgate.fetch_table(first, url=server + "/again/{id}", url_only=True, keep=["id"])
    assert [0, 1, 2, 3, 4] == sorted(pa.table(again)["id"].to_pylist())


def test_polars_pandas_and_pyarrow_are_read(server: str) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    columns = {"url": [f"{server}/status/404", f"{server}/1"], "n": [1.5, None], "kind": ["a", "b"]}
    categories = polars.DataFrame(columns).with_columns(polars.col("kind").cast(polars.Categorical))
    tables = [pa.table(columns), polars.DataFrame(columns), categories, pandas.DataFrame(columns)]
    for table in tables:
        rows = in_order(headgate.fetch_table(table))
        assert [(404, "a"), (200, "b")] == [(row["status"], row["kind"]) for row in rows]
        assert rows[0]["n"] == 1.5
    results = headgate.fetch_table(tables[0])
    assert polars.DataFrame(results).height == 2
    assert len(pa.table(results).to_pandas()) == 2


def test_a_query_of_duckdb_is_read_and_batches_go_into_one(server: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    query = "select $server || '/' || range as url, range as id from range(2500)"
    reader = connection.sql(query, params={"server": server}).to_arrow_reader(1000)
    results = headgate.fetch_table(reader, drop=["body"])
    connection.register("results", pa.table(results))
    found = connection.sql("select status, count(*), sum(id) from results group by status").fetchall()
    assert [(200, 2500, 2500 * 2499 // 2)] == found
    relation = connection.sql("select $url as url", params={"url": f"{server}/x"})
    assert [200] == pa.table(headgate.fetch_table(relation))["status"].to_pylist()


def test_columns_make_requests_and_responses_make_columns(server: str) -> None:
    table = pa.table(
        {
            "u": [f"{server}/echo"] * 2,
            "verb": ["POST", None],
            "head": [[{"name": "X-A", "value": "1"}], None],
            "payload": [b"abc", None],
            "cost": [1, 2],
        }
    )
    results = headgate.fetch_table(
        table,
        url_column="u",
        method_column="verb",
        headers_column="head",
        body_column="payload",
        cost_column="cost",
        cost_rate="1000/s",
        keep=["cost"],
        drop=["body"],
        extract={"verb": "$.method", "sent": "$.body"},
    )
    rows = in_order(results)
    assert [("POST", "abc", 1), ("GET", "", 2)] == [(row["verb"], row["sent"], row["cost"]) for row in rows]
    assert "payload" not in rows[0]
    assert "body" not in rows[0]


def test_bodies_are_templates_and_a_missing_selection_fails_its_row_alone(server: str) -> None:
    table = pa.table({"text": ['say "hi"', "b"], "n": [1, 2]})
    results = headgate.fetch_table(
        table,
        url=server + "/echo",
        json={"text": "{text}", "n": "{n}"},
        header_templates={"X-N": "{n}"},
        extract={"sent": "$.body", "nothing": "$.nothing"},
        require="nothing",
        retries=0,
    )
    rows = in_order(results)
    assert ['{"text": "say \\"hi\\"", "n": 1}', '{"text": "b", "n": 2}'] == [row["sent"] for row in rows]
    assert ["unexpected_response"] * 2 == [row["error"] for row in rows]


def test_failures_are_rows(server: str) -> None:
    table = pa.table({"url": [f"{server}/1", "http://127.0.0.1:9/", None, "no url"], "id": [1, 2, 3, 4]})
    rows = in_order(headgate.fetch_table(table, retries=0))
    assert [None, "connect", "invalid_request", "invalid_request"] == [row["error"] for row in rows]
    assert [1, 2, 3, 4] == [row["id"] for row in rows]


def test_many_rows_that_fail_alike_do_not_stop_the_shared_engine() -> None:
    table = pa.table({"url": ["http://127.0.0.1:9/"] * 3000})
    for _ in range(2):
        errors = pa.table(headgate.fetch_table(table, retries=0))["error"]
        assert ["connect"] == errors.unique().to_pylist()


def test_a_missing_column_is_named_with_those_that_exist(server: str) -> None:
    with pytest.raises(headgate.InputError) as raised:
        headgate.fetch_table(ids(0, 1))
    assert (
        "batches: there is no column 'url' with URLs: use url_column to name the one that has them, or url to make "
        'them of other columns; the columns are "id", "name"'
    ) == str(raised.value).replace('"url"', "'url'")
    with pytest.raises(headgate.InputError, match='there is no column "nr" for url; the columns are "id", "name"'):
        next(headgate.map_batches(ids(0, 1), url=server + "/{nr}"))


def test_a_column_that_results_have_is_refused_unless_they_go_without(server: str) -> None:
    table = pa.table({"url": [f"{server}/1"], "status": [5], "body": ["x"]})
    with pytest.raises(headgate.InputError, match='"status" can\'t be kept: the result has one of its own'):
        headgate.fetch_table(table, url_only=True)
    table = table.drop_columns("status")
    rows = in_order(headgate.fetch_table(table, url_only=True, drop=["body"]))
    assert ["x"] == [row["body"] for row in rows]


def test_batches_of_other_columns_than_the_first_are_refused(server: str) -> None:
    def message(other: pa.RecordBatch) -> str:
        with pytest.raises(headgate.InputError) as raised:
            headgate.fetch_table([ids(0, 1), other], url=server + "/{id}")
        return str(raised.value)

    must = ": all batches of a call must have the same columns, of the same types"
    other_type = pa.record_batch({"id": ["1"], "name": ["a"]})
    assert 'batches: the column "id" is Utf8, and was Int64 in the first batch' + must == message(other_type)
    fewer = pa.record_batch({"id": [1]})
    assert 'batches: a batch has the columns "id", and the first one had "id", "name"' + must == message(fewer)


def test_mistakes_in_options_are_raised_before_anything_is_read() -> None:
    def never() -> Iterator[object]:
        yield pytest.fail("it was read")

    with pytest.raises(headgate.UsageError) as raised:
        headgate.map_batches(never(), concurrency=0, retries=-1)
    assert "concurrency must be at least 1, not 0; retries must be at least 0, not -1" == str(raised.value)
    with pytest.raises(headgate.UsageError, match=r"extract"):
        headgate.map_batches(never(), extract={"a": "nonsense"})
    with pytest.raises(headgate.UsageError, match=r"drop"):
        headgate.map_batches(never(), drop=["nonsense"])
    with pytest.raises(TypeError, match=r"map_batches\(\) got an unexpected keyword argument 'output'"):
        headgate.map_batches(never(), output="x")  # type: ignore[call-arg] # the mistake
    with pytest.raises(TypeError, match=r"fetch_table\(\) got an unexpected keyword argument 'output'"):
        headgate.fetch_table(never(), output="x")  # type: ignore[call-arg] # the mistake


def test_a_value_that_is_no_table_is_refused() -> None:
    with pytest.raises(TypeError, match="an iterable of these, not int"):
        headgate.map_batches(5)
    with pytest.raises(TypeError, match="not str"):
        headgate.map_batches("http://127.0.0.1/")
    with pytest.raises(
        TypeError, match="a batch must have __arrow_c_array__ or __arrow_c_stream__, and str has neither"
    ):
        next(headgate.map_batches(["http://127.0.0.1/"]))
    with pytest.raises(ValueError, match="must be a table of columns, not one array"):
        next(headgate.map_batches([pa.array([1, 2])]))


def test_an_input_without_rows_has_a_result_with_its_columns(server: str) -> None:
    none = pa.table(headgate.fetch_table(ids(0, 0), url=server + "/{id}"))
    assert (0, ["id", "name"]) == (none.num_rows, none.schema.names[-2:])
    nothing = pa.table(headgate.fetch_table([], url=server + "/{id}"))
    assert (0, "remote_addr") == (nothing.num_rows, nothing.schema.names[-1])
    assert [] == list(headgate.map_batches([ids(0, 0), ids(0, 0)], url=server + "/{id}"))


def test_an_exception_of_the_input_reaches_the_caller(server: str) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield ids(0, 3)
        raise LookupError("mine")

    batches = headgate.map_batches(broken(), url=server + "/{id}")
    with pytest.raises(LookupError, match="mine"):
        list(batches)
    assert [] == list(batches)


def test_slow_rows_do_not_delay_rows_of_later_batches() -> None:
    with serving() as server:
        slow = pa.record_batch({"path": ["delay/30"]})
        quick = [pa.record_batch({"path": ["1"] * 10})] * 20
        with headgate.map_batches([slow, *quick], url=server + "/{path|string}", concurrency=4) as batches:
            began = time.monotonic()
            done = 0
            while done < 200:
                done += next(batches).num_rows
            assert time.monotonic() - began < 25


def test_concurrent_calls_share_what_is_in_flight() -> None:
    with serving("--delay", "0.02") as server, ThreadPoolExecutor(4) as threads:
        results = threads.map(
            lambda _: headgate.fetch_table(ids(0, 200), url=server + "/{id}", concurrency=8).num_rows, range(4)
        )
        assert [200] * 4 == list(results)
        seen = stats(server)
        assert seen["max_requests_in_progress"] == 8
        assert seen["requests"] == 800


def test_connections_are_kept_over_batches_and_calls() -> None:
    with serving() as server:
        for _ in range(10):
            headgate.fetch_table([ids(n, n + 1) for n in range(20)], url=server + "/{id}", concurrency=5, threads=1)
        seen = stats(server)
        assert seen["requests"] == 200
        # One connection is that of `stats`.
        assert seen["connections_accepted"] <= 6


def test_an_endless_input_is_read_as_far_as_the_bounds_allow() -> None:
    read = 0

    def endless() -> Iterator[pa.RecordBatch]:
        nonlocal read
        for number in count():
            read += 100
            yield ids(number * 100, number * 100 + 100)

    with serving() as server, headgate.map_batches(endless(), url=server + "/{id}", concurrency=50) as batches:
        done, most = 0, 0
        while done < 10_000:
            done += next(batches).num_rows
            most = max(most, read - done)
        # Twice the concurrency and 1,024 rows are outstanding; a batch is collected, and one is read.
        assert most <= 2 * 50 + 1024 + 1024 + 100
        batches.close()
        assert [] == list(batches)


def test_leaving_early_cancels_what_is_in_flight_and_the_next_call_need_not_wait() -> None:
    with serving("--delay", "30") as server:
        with headgate.map_batches(ids(0, 500), url=server + "/{id}", rate="10/s", timeout=60) as batches:
            thread = threading.Thread(target=lambda: list(islice(batches, 1)))
            thread.start()
            wait_for(lambda: stats(server)["requests_in_progress"] >= 2)
            batches.close()
            thread.join(10)
            assert not thread.is_alive()
        wait_for(lambda: stats(server)["requests_in_progress"] == 0)
    with serving() as server:
        began = time.monotonic()
        headgate.fetch_table(ids(0, 2), url=server + "/{id}", rate="10/s", timeout=60)
        assert time.monotonic() - began < 25  # what the first call had reserved takes twice as long


def test_ctrl_c_ends_the_wait() -> None:
    with serving("--delay", "30") as server:
        batches = headgate.map_batches(ids(0, 10), url=server + "/{id}", timeout=60)
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            next(batches)
        wait_for(lambda: stats(server)["requests_in_progress"] == 0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_child_starts_its_own_engine(server: str) -> None:
    headgate.fetch_table(ids(0, 3), url=server + "/{id}")
    left = headgate.map_batches(ids(0, 3), url=server + "/{id}")
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert headgate.fetch_table(ids(0, 300), url=server + "/{id}").num_rows == 300
            try:
                next(left)
            except headgate.UsageError as error:
                assert "started in another process" in str(error)  # noqa: PT017 - pytest must not end the child
                del left
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sum(batch.num_rows for batch in left) == 3


def test_an_event_loop_is_not_blocked(server: str) -> None:
    async def within() -> int:
        with pytest.raises(RuntimeError, match="would block the event loop"):
            headgate.map_batches(ids(0, 3), url=server)
        with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
            headgate.fetch_table(ids(0, 3), url=server)
        return len(await asyncio.to_thread(headgate.fetch_table, ids(0, 3), url=server + "/{id}"))

    assert asyncio.run(within()) == 3


def test_options_that_change_from_call_to_call_leave_nothing_behind(server: str) -> None:
    for number in range(30):
        results = headgate.fetch_table(
            ids(0, 1), url=server + "/echo", bearer=f"t{number}", extract={"said": "$.headers"}
        )
        assert f"Bearer t{number}" in pa.table(results)["said"].to_pylist()[0]


def test_large_bodies_make_small_batches(server: str) -> None:
    table = pa.table({"url": [f"{server}/bytes/700000"] * 20})
    batches = list(headgate.map_batches(table, max_memory=2**20 * 4))
    assert sum(batch.num_rows for batch in batches) == 20
    assert max(batch.num_rows for batch in batches) <= 2


def test_an_iterator_that_is_dropped_cancels_what_is_in_flight(server: str) -> None:
    with serving("--delay", "30") as slow:
        table = pa.table({"url": [f"{server}/1", *(f"{slow}/{number}" for number in range(10))]})
        batches = headgate.map_batches(table, timeout=60)
        assert next(batches).num_rows == 1
        wait_for(lambda: bool(stats(slow)["requests_in_progress"] == 10))
        del batches
        wait_for(lambda: bool(stats(slow)["requests_in_progress"] == 0))


def test_memory_does_not_grow_with_the_input(server: str) -> None:
    def peak_after(rows: int) -> int:
        wide = [pa.record_batch({"id": range(1000), "text": ["x" * 1000] * 1000})] * (rows // 1000)
        for _ in headgate.map_batches(wide, url=server + "/{id}", concurrency=100):
            pass
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    before = peak_after(5_000)
    assert peak_after(50_000) - before < 20 * 2**20
