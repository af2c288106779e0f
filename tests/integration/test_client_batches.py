"""Results of a client in batches, and its tables: `to_arrow_batches`, `map_batches`, `fetch_table`."""

import os
import resource
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import headgate
from support.run import LONGEST_S, serving, stats, wait_for

HELD = "/delay/3600"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture
def client(server: str) -> Iterator[headgate.Client]:
    with headgate.Client(base_url=server) as client:
        yield client


def table_of(batches: headgate.BatchIterator) -> pa.Table:
    return pa.RecordBatchReader.from_stream(batches).read_all().sort_by("row")


def test_urls_become_rows_at_their_positions(client: headgate.Client, server: str) -> None:
    urls = [f"/bytes/{number % 7}" for number in range(3000)]

    table = table_of(client.fetch_many(urls).to_arrow_batches(drop=["headers"]))

    assert list(range(3000)) == table["row"].to_pylist()
    assert [server + url for url in urls] == table["url"].to_pylist()
    assert [number % 7 for number in range(3000)] == table["received_bytes"].to_pylist()
    assert [200] == table["status"].unique().to_pylist()
    assert "headers" not in table.schema.names


def test_the_columns_are_those_of_map_batches(client: headgate.Client, server: str) -> None:
    expected = pa.table(headgate.fetch_table(pa.table({"url": [f"{server}/1"]}))).schema
    batches = client.fetch_many(["/1"]).to_arrow_batches()

    assert expected == pa.schema(batches.schema)
    assert expected == pa.schema(batches)
    assert expected == pa.record_batch(next(batches)).schema
    assert [] == list(batches)


def test_requests_of_each_kind_are_made(client: headgate.Client) -> None:
    requests: list[str | headgate.Request | dict[str, Any]] = [
        "/echo",
        headgate.Request("/echo", method="PUT", json={"a": 1}, headers={"X-A": "ü"}),
        {"url": "/echo", "method": "POST", "data": {"b": 2}},
        headgate.Request("/redirect/1", redirects="none"),
    ]
    table = table_of(client.fetch_many(requests).to_arrow_batches(extract={"verb": "$.method", "sent": "$.body"}))

    assert [("GET", ""), ("PUT", '{"a":1}'), ("POST", "b=2"), (None, None)] == list(
        zip(table["verb"].to_pylist(), table["sent"].to_pylist(), strict=True)
    )
    assert [200, 200, 200, 302] == table["status"].to_pylist()


def test_failures_are_rows(client: headgate.Client) -> None:
    table = table_of(client.fetch_many(["/status/404", "http://127.0.0.1:1/", "http://"]).to_arrow_batches())
    assert [404, None, None] == table["status"].to_pylist()
    assert [None, "connect", "invalid_request"] == table["error"].to_pylist()


def test_polars_pandas_and_duckdb_read_it_as_a_stream(client: headgate.Client) -> None:
    polars, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    pytest.importorskip("pandas")

    def results() -> headgate.BatchIterator:
        return client.fetch_many(f"/bytes/{number % 3}" for number in range(3000)).to_arrow_batches()

    assert 3000 == polars.DataFrame(results())["received_bytes"].sum()
    assert 3000 == pa.RecordBatchReader.from_stream(results()).read_pandas()["received_bytes"].sum()
    connection = duckdb.connect()
    query = "select count(*), sum(received_bytes) from batches"
    for batches in (results(), client.map_batches(pa.table({"url": ["/bytes/1"] * 3000}))):
        assert [(3000, 3000)] == connection.execute(query).fetchall()
        assert [] == list(batches)


def test_a_stream_continues_after_the_batches_that_were_taken(client: headgate.Client) -> None:
    batches = client.fetch_many(f"/{number}" for number in range(3000)).to_arrow_batches()
    taken = next(batches).num_rows
    assert 3000 - taken == table_of(batches).num_rows


def test_an_exception_of_the_source_reaches_an_iterator_and_a_stream(client: headgate.Client) -> None:
    def broken() -> Iterator[str]:
        yield "/1"
        raise LookupError("mine")

    batches = client.fetch_many(broken()).to_arrow_batches()
    with pytest.raises(LookupError, match="mine"):
        list(batches)
    assert [] == list(batches)
    with pytest.raises(pa.ArrowException, match="LookupError: mine"):
        table_of(client.fetch_many(broken()).to_arrow_batches())


def test_an_endless_source_is_read_as_far_as_the_bounds_allow(server: str) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        for read in count(1):
            yield f"/{read}"

    with headgate.Client(base_url=server, concurrency=50) as client:
        done = most = 0
        with client.fetch_many(endless()).to_arrow_batches() as batches:
            while done < 10_000:
                done += next(batches).num_rows
                most = max(most, read - done)
        # Twice the concurrency and 1,024 rows are outstanding, and a batch is collected.
        assert most <= 2 * 50 + 1024 + 1024
        wait_for(lambda: client.statistics().in_flight == 0)
        assert [] == list(batches)


def test_a_slow_source_does_not_delay_finished_results(client: headgate.Client) -> None:
    is_seen = threading.Event()

    def source() -> Iterator[str]:
        yield "/1"
        while not is_seen.is_set():
            yield "/2"
            is_seen.wait(0.01)

    for batch in client.fetch_many(source()).to_arrow_batches():
        assert batch.num_rows > 0
        is_seen.set()


def test_leaving_early_or_dropping_it_cancels_what_is_in_flight(client: headgate.Client) -> None:
    for leave in (lambda batches: batches.close(), lambda _: None):
        batches = client.fetch_many(["/1", *[HELD] * 5]).to_arrow_batches()
        assert next(batches).num_rows == 1
        wait_for(lambda: client.statistics().in_flight == 5)
        leave(batches)
        held = weakref.ref(batches)
        del batches
        assert held() is None
        wait_for(lambda: client.statistics().in_flight == 0)
    assert 200 == client.get("/hello").status_code


def test_batches_come_before_outcomes_or_not_at_all(client: headgate.Client) -> None:
    begun = client.fetch_many(["/1", "/2"])
    next(begun)
    submitted = client.fetch_many(["/1"])
    submitted.submit("/2")
    closed = client.fetch_many(["/1"])
    closed.close()
    for many in (begun, submitted, closed):
        with pytest.raises(
            RuntimeError, match=r"^to_arrow_batches\(\) comes first: outcomes were taken, requests submitted"
        ):
            many.to_arrow_batches()
    with pytest.raises(RuntimeError, match=r"needs requests: call fetch_many\(requests\)\.to_arrow_batches\(\)"):
        client.fetch_many().to_arrow_batches()

    taken = client.fetch_many(["/1"])
    batches = taken.to_arrow_batches()
    with pytest.raises(RuntimeError, match="its results come in batches, and there are no outcomes"):
        next(taken)
    with pytest.raises(RuntimeError, match="called before: take the results from what it returned"):
        taken.to_arrow_batches()
    with pytest.raises(RuntimeError, match="no more can be submitted"):
        taken.submit("/2")
    assert 1 == table_of(batches).num_rows


def test_options_of_a_client_are_for_the_client(client: headgate.Client) -> None:
    with pytest.raises(
        TypeError,
        match=r"^to_arrow_batches\(\) got .* 'rate': it is an option of the client, headgate\.Client\(rate=...\)$",
    ):
        client.fetch_many([]).to_arrow_batches(rate="1/s")  # type: ignore[call-arg] # the mistake
    with pytest.raises(TypeError, match=r"map_batches.* 'retries': it is an option of the client"):
        client.map_batches([], retries=2)  # type: ignore[call-arg] # the mistake
    with pytest.raises(TypeError, match=r"fetch_table.* 'verify': the client has insecure=True"):
        client.fetch_table([], verify=False)  # type: ignore[call-arg] # the mistake
    with pytest.raises(TypeError, match=r"batches\(\) got an unexpected keyword argument 'keeps'"):
        client.fetch_many([]).to_arrow_batches(keeps=2)  # type: ignore[call-arg] # the mistake
    with pytest.raises(headgate.UsageError, match='extract "a=nonsense": '):
        client.fetch_many([]).to_arrow_batches(extract={"a": "nonsense"})


def test_a_call_has_its_own_selection_beside_that_of_the_client(server: str) -> None:
    with headgate.Client(base_url=server, extract={"verb": "$.method"}, require="verb", retries=0) as client:
        both = table_of(client.fetch_many(["/echo", "/hello"]).to_arrow_batches(extract={"path": "$.path"}))
        own = pa.table(client.fetch_table(pa.table({"url": ["/echo"]}), extract={"seen": "header:content-type"}))

        assert [("GET", "/echo"), (None, None)] == [(row["verb"], row["path"]) for row in both.to_pylist()]
        assert [None, "unexpected_response"] == both["error"].to_pylist()
        assert ["application/json"] == own["seen"].to_pylist()
        assert "path" not in own.schema.names
        # Another thread selects values from large bodies.
        large = headgate.Request("/echo", method="POST", content="x" * 2**20)
        table = table_of(client.fetch_many([large]).to_arrow_batches(extract={"path": "$.path"}, drop=["body"]))
        assert [("POST", "/echo")] == [(row["verb"], row["path"]) for row in table.to_pylist()]
        with pytest.raises(headgate.UnexpectedResponse):
            client.get("/hello")


def test_a_table_is_fetched_with_the_engine_of_the_client() -> None:
    with serving("--delay", "0.02") as slow, headgate.Client(base_url=slow, concurrency=8) as client:
        tables = [pa.table({"id": range(100)})] * 3

        def of_tables(number: int) -> int:
            return client.fetch_table(tables[number], url="/{id}").num_rows

        def of_requests(number: int) -> int:
            return sum(batch.num_rows for batch in client.fetch_many(["/1"] * (100 + number)).to_arrow_batches())

        with ThreadPoolExecutor(4) as threads:
            work: list[Callable[[int], int]] = [of_tables, of_tables, of_requests, of_requests]
            assert [100, 100, 102, 103] == list(threads.map(lambda do, n: do(n), work, range(4)))
        assert (405, 8) == (client.statistics().rows, stats(slow)["max_requests_in_progress"])


def test_urls_of_a_table_may_be_relative(client: headgate.Client, server: str) -> None:
    columns = {
        "url": ["/bytes/1", "bytes/2", f"{server}/bytes/3"],
        "id": [1, 2, 3],
        "path": ["bytes/1", "/bytes/2", f"{server}/bytes/3"],
    }
    options_of_calls: list[dict[str, Any]] = [
        {"keep": ["id"]},
        {"url": "/bytes/{id}", "keep": ["id"]},
        {"url_column": "path", "keep": ["id"]},
        {"url": server + "/bytes/{id}", "keep": ["id"]},
    ]
    for options in options_of_calls:
        table = pa.table(client.fetch_table(pa.table(columns), **options)).sort_by("row")
        assert [(f"{server}/bytes/{n}", n, n) for n in (1, 2, 3)] == [
            (row["url"], row["id"], row["received_bytes"]) for row in table.to_pylist()
        ]


def test_rows_without_a_method_or_a_body_have_those_of_the_call(client: headgate.Client) -> None:
    table = pa.table({"url": ["/echo", "/echo"], "method": ["PATCH", None], "body": [None, "own"]})
    results = client.fetch_table(
        table,
        method="PUT",
        data="all",
        method_column="method",
        body_column="body",
        keep=(),
        drop=["body"],
        extract={"sent": "$.body"},
    )
    rows = pa.table(results).sort_by("row").to_pylist()
    assert [("PATCH", "all"), ("PUT", "own")] == [(row["method"], row["sent"]) for row in rows]


def test_batches_of_a_table_are_mapped_lazily(client: headgate.Client) -> None:
    def batches() -> Iterator[pa.Table]:
        for number in range(30):
            yield pa.table({"id": range(number * 100, number * 100 + 100)})

    done = [batch.num_rows for batch in client.map_batches(batches(), url="/{id}")]
    assert 3000 == sum(done)
    reader = pa.RecordBatchReader.from_stream(client.map_batches(batches(), url="/{id}"))
    assert "id" == reader.schema.names[-1]
    assert list(range(3000)) == sorted(reader.read_all()["id"].to_pylist())


def test_a_value_that_is_no_table_is_refused(client: headgate.Client) -> None:
    with pytest.raises(TypeError, match="an iterable of these, not int"):
        client.fetch_table(5)
    with pytest.raises(headgate.InputError, match='there is no column "url" with URLs'):
        client.fetch_table(pa.table({"x": [1]}))


def test_a_client_that_is_closed_makes_no_more_batches(server: str) -> None:
    client = headgate.Client(base_url=server)
    many = client.fetch_many(["/1"])
    batches = client.fetch_many(["/1"] * 100).to_arrow_batches()
    client.close()
    with pytest.raises(RuntimeError, match="the client is closed"):
        many.to_arrow_batches()
    with pytest.raises(RuntimeError, match="the client is closed"):
        client.fetch_table(pa.table({"url": ["/1"]}))
    with pytest.raises(headgate.UsageError, match="the client is closed: it makes no more requests"):
        list(batches)


def test_requests_cost_what_they_say(server: str) -> None:
    body = {"messages": [{"role": "user", "content": "hi " * 50}]}
    selected = {"tokens:int64": "$.usage.total_tokens"}
    with headgate.Client(base_url=server, cost_rate="1/h", extract=selected, cost_from_response="tokens") as client:
        # The estimate is far below the cost in the response, which uses up the cost rate for a long time.
        tokens = client.post("/v1/chat/completions", json=body, cost=0.5).json()["usage"]["total_tokens"]
        assert tokens > 1
        with client.fetch_many([headgate.Request("/hello", cost=1)]) as outcomes:
            thread = threading.Thread(target=lambda: list(outcomes))
            thread.start()
            wait_for(lambda: client.statistics().bottleneck.kind == "cost")
            outcomes.close()
            thread.join(20)
            assert not thread.is_alive()
    with headgate.Client(base_url=server, cost_rate="1/h") as client:
        assert all(client.get("/hello", cost=0).is_success for _ in range(20))
        table = pa.table({"url": ["/hello"] * 20, "cost": [0] * 20})
        assert 20 == client.fetch_table(table, cost_column="cost").num_rows
        with pytest.raises(headgate.UsageError, match="cost_rate needs the cost of each row: give cost_column"):
            client.fetch_table(table)


@pytest.mark.parametrize("cost", [-1, float("nan"), True, "1"])
def test_a_cost_is_a_number_of_0_or_more(client: headgate.Client, cost: Any) -> None:
    with pytest.raises(headgate.InvalidRequest, match="cost must be a number"):
        client.get("/hello", cost=cost)


def test_memory_does_not_grow_with_the_requests(server: str) -> None:
    def peak_after(requests: int) -> int:
        with headgate.Client(base_url=server, concurrency=100) as client:
            urls = (f"/{number}?{'x' * 1000}" for number in range(requests))
            for _ in client.fetch_many(urls).to_arrow_batches():
                pass
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    before = peak_after(5_000)
    assert peak_after(50_000) - before < 20 * 2**20


def interrupting() -> Iterator[str]:
    """Yields a URL that gets no response, sends SIGINT, and yields the URL once more."""
    yield HELD
    os.kill(os.getpid(), signal.SIGINT)
    yield HELD


def test_ctrl_c_ends_the_wait_of_an_iterator_and_of_a_stream(client: headgate.Client) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(client.fetch_many(interrupting()).to_arrow_batches())
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012 - the error of pyarrow comes first
        with pytest.raises(pa.ArrowInvalid, match="KeyboardInterrupt"):
            table_of(client.fetch_many(interrupting()).to_arrow_batches())
        list(range(10))
    wait_for(lambda: client.statistics().in_flight == 0)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork")
def test_a_child_makes_batches_of_its_own(client: headgate.Client) -> None:
    left = client.fetch_many(f"/{number}" for number in range(3000)).to_arrow_batches()
    taken = next(left).num_rows
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert sum(batch.num_rows for batch in client.fetch_many(["/1"] * 300).to_arrow_batches()) == 300
            assert client.fetch_table(pa.table({"id": [1, 2]}), url="/{id}").num_rows == 2
            try:
                next(left)
            except headgate.UsageError as error:
                assert "started in another process" in str(error)  # noqa: PT017 - pytest must not end the child
                status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sum(batch.num_rows for batch in left) == 3000 - taken


AFTER_AN_ERROR = """
import sys
import headgate, pyarrow as pa

server, client = sys.argv[1], headgate.Client()

def broken():
    yield f"{server}/1"
    raise ValueError("the source is broken")

def read():
    # The traceback of the error keeps the reader and the results alive until it is freed.
    for batch in pa.RecordBatchReader.from_stream(client.fetch_many(broken()).to_arrow_batches()):
        pass

for _ in range(3):
    try:
        read()
    except pa.ArrowInvalid as error:
        assert "the source is broken" in str(error)
    assert client.get(f"{server}/2").is_success

def read_by_c():
    # The consumer's reads in C read another stream in C.
    results = client.fetch_many(f"{server}/{number}" for number in range(2000)).to_arrow_batches()
    for batch in pa.RecordBatchReader.from_stream(results):
        yield from (f"{server}/{status}" for status in batch["status"].to_pylist())

assert pa.table(client.fetch_many(read_by_c()).to_arrow_batches()).num_rows == 2000
print("ended")
"""


def test_streams_of_arrow_take_the_lock_of_the_interpreter_wherever_they_are_read_and_freed() -> None:
    with serving() as server:
        done = subprocess.run(
            [sys.executable, "-c", AFTER_AN_ERROR, server],
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    assert (0, "ended\n") == (done.returncode, done.stdout), done.stderr
