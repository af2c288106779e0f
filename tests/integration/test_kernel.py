"""In a Jupyter kernel, whose loop always runs: cells may block, interrupts end calls, and responses are tables."""

from collections.abc import Iterator

import pytest

from support.kernel import Kernel, notebook
from support.run import serving, stats, wait_for

HELD = "/delay/3600"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with serving() as url:
        yield url


@pytest.fixture(scope="module")
def kernel(server: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    directory = tmp_path_factory.mktemp("k")
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("IPYTHONDIR", str(directory))
        environment.setenv("PYTHONWARNINGS", "ignore")
        with notebook(directory) as kernel:
            begun = kernel.run(
                "import asyncio, headgate, pyarrow as pa\n"
                f"server = '{server}'\n"
                "client = headgate.Client(base_url=server)\n"
                "in_loop = headgate.AsyncClient(base_url=server)\n"
                "table = pa.table({'id': range(3)})\n"
                "asyncio.get_running_loop().is_running()"
            )
            assert ("", "True") == (begun.error, begun.shown.get("text/plain"))
            yield kernel


@pytest.mark.parametrize(
    ("shown", "cell"),
    [
        ("200", "client.get('/hello').status_code"),
        ("200", "(await in_loop.get('/hello')).status_code"),
        ("100", "sum(outcome.unwrap().is_success for outcome in client.fetch_many(['/hello'] * 100))"),
        ("100", "len([outcome async for outcome in in_loop.fetch_many(['/hello'] * 100)])"),
        ("3", "len(headgate.fetch_table(table, url=server + '/{id}'))"),
        ("3", "sum(batch.num_rows for batch in headgate.map_batches(table, url=server + '/{id}'))"),
        ("3", "sum([batch.num_rows async for batch in headgate.amap_batches(table, url=server + '/{id}')])"),
        ("3", "headgate.fetch(server + '/[1-3]', 'out').succeeded"),
        ("3", "(await headgate.start(server + '/[1-3]', 'awaited')).succeeded"),
    ],
)
def test_a_running_loop_is_no_hindrance(shown: str, cell: str, kernel: Kernel) -> None:
    done = kernel.run(cell)
    assert ("", shown) == (done.error, done.shown.get("text/plain"))


@pytest.mark.parametrize(
    ("error", "cell"),
    [
        ("KeyboardInterrupt", "client.get('{held}')"),
        ("KeyboardInterrupt", "for outcome in client.fetch_many(['{held}'] * 3): pass"),
        ("CancelledError", "await in_loop.get('{held}')"),
        ("CancelledError", "async for outcome in in_loop.fetch_many(['{held}'] * 3): pass"),
        ("KeyboardInterrupt", "with client.stream('GET', '{held}') as response: pass"),
        ("CancelledError", "async with in_loop.stream('GET', '{held}') as response: pass"),
        ("CancelledError", "async for batch in headgate.amap_batches(table, url=server + '{held}'): pass"),
        ("KeyboardInterrupt", "headgate.fetch_table(table, url=server + '{held}')"),
        ("KeyboardInterrupt", "for batch in headgate.map_batches(table, url=server + '{held}'): pass"),
        ("Interrupted", "headgate.fetch(server + '{held}', 'held', shutdown_timeout=0, progress=False)"),
    ],
)
def test_interrupting_ends_the_call_and_the_next_cell_works(error: str, cell: str, kernel: Kernel, server: str) -> None:
    before = stats(server)["requests"]
    kernel.start(cell.format(held=HELD))
    wait_for(lambda: bool(stats(server)["requests"] > before))
    kernel.interrupt()
    assert error == kernel.end().error
    wait_for(lambda: bool(stats(server)["requests_in_progress"] == 0))
    assert "200" == kernel.run("client.get('/hello').status_code").shown["text/plain"]


@pytest.mark.parametrize(
    ("plain", "rich", "cell"),
    [
        ("<Response [200 OK]>", "13 B", "client.get('/hello')"),
        ("<Outcome of /hello: <Response [200 OK]>>", "200 OK", "next(client.fetch_many(['/hello']))"),
        (
            "<Outcome of http://127.0.0.1:1/: ConnectError(",
            "connect",
            "next(client.fetch_many(['http://127.0.0.1:1/']))",
        ),
        ("<headgate.Client of http://", "succeeded", "client"),
        ("<headgate.AsyncClient of http://", "in flight", "in_loop"),
        ("<headgate.FetchMany: 0 of 0 requests done>", "", "client.fetch_many([])"),
        ("<headgate.AsyncFetchMany: 0 of 0 requests done>", "", "in_loop.fetch_many([])"),
        ("Snapshot(", "requests/s", "client.statistics()"),
        ("Request('/hello')", "", "headgate.Request('/hello', headers={'Authorization': 'Bearer x'})"),
    ],
)
def test_the_value_of_a_cell_is_shown_as_a_table_and_elsewhere_as_plain_text(
    plain: str, rich: str, cell: str, kernel: Kernel
) -> None:
    shown = kernel.run(cell).shown
    assert plain == shown["text/plain"][: len(plain)]
    assert rich in shown.get("text/html", "")
    assert bool(rich) == shown.get("text/html", "").startswith("<table>")


def test_progress_of_a_job_is_one_line_that_is_overwritten(kernel: Kernel) -> None:
    done = kernel.run("headgate.fetch(server + '/[1-50]', 'progress', progress=True).succeeded")
    assert ("50", 1) == (done.shown["text/plain"], len(done.lines))
    (line,) = done.lines.values()
    assert line.startswith("50 of 50 rows (100 %), ")
    assert "\n" not in line
    assert "" == done.printed
