"""`headgate.ray`: a stage of Ray Data, on a cluster of one small node on loopback."""

import asyncio
import fcntl
import logging
import os
import re
import secrets
import signal
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate.ray
from harness.trees import tree
from support.console import ADDRESS
from support.docstrings import check, typed
from support.documents import programs_run_by
from support.run import serving, stats, wait_for, wait_for_requests

ray = pytest.importorskip("ray", reason="ray is not installed: pip install -r requirements/clusters.txt")
pytest.importorskip("ray.data")

# Ray and its dependencies cause warnings among themselves.
pytestmark = [pytest.mark.timeout(300), pytest.mark.filterwarnings("default")]

RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
    # All clusters of this process share a token, because Ray reads it once.
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}


@pytest.fixture(scope="module", autouse=True)
def _cluster(server: str) -> Iterator[None]:
    """Starts a node with two CPUs. The paths of its sockets have to be short."""
    assert server, "the server of all tests is started first: it is not one of the processes that end with Ray"
    with tempfile.TemporaryDirectory(prefix="ray-") as directory, pytest.MonkeyPatch.context() as patch:
        before = set(tree(os.getpid()))
        for name, value in RAY.items():
            patch.setenv(name, value)
        # Two clusters that start at once may choose the same port, and then one of them gets the token of the other.
        with Path(tempfile.gettempdir(), "headgate-tests-ray.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            ray.init(
                num_cpus=2,
                include_dashboard=False,
                log_to_driver=False,
                logging_level="warning",
                object_store_memory=100 << 20,
                _node_ip_address="127.0.0.1",
                _temp_dir=directory,
            )
        try:
            yield
        finally:
            started = set(tree(os.getpid())) - before
            ray.shutdown()
            wait_for(lambda: started.isdisjoint(tree(os.getpid())) and not any(map(title, started)))


def dataset(rows: int, blocks: int) -> Any:
    return ray.data.range(rows, override_num_blocks=blocks)


def sorted_rows(results: Any) -> list[dict[str, Any]]:
    return sorted(results.take_all(), key=lambda row: int(row["id"]))


def workers() -> list[int]:
    """Returns the processes of this cluster that make requests."""
    return [each for each in tree(os.getpid()) if title(each).startswith(b"ray::MapWorker(MapBatches(Fetch)")]


def title(process: int) -> bytes:
    """Returns the title of a process, which is empty if it has ended meanwhile."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def nice_levels(process: int) -> set[int]:
    """Returns the nice levels of the threads of a process."""
    threads = Path(f"/proc/{process}/task").iterdir()
    return {os.getpriority(os.PRIO_PROCESS, int(thread.name)) for thread in threads}


def parent(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def test_each_row_is_there_once_and_failures_are_rows(server: str) -> None:
    urls = [f"{server}/bytes/{number}" for number in range(500)]
    urls[7], urls[8] = "http://127.0.0.1:9/", f"{server}/status/404"
    table = pa.table({"url": urls, "id": range(500)}).set_column(0, "url", pa.array([*urls[:9], None, *urls[10:]]))
    results = headgate.ray.fetch(
        ray.data.from_arrow([table.slice(start, 100) for start in range(0, 500, 100)]), retries=0, batch_size=30
    )
    rows = sorted_rows(results)
    assert list(range(500)) == [row["id"] for row in rows]
    assert ["connect", None, "invalid_request"] == [row["error"] for row in rows[7:10]]
    assert 404 == rows[8]["status"]
    good = rows[:7] + rows[10:]
    assert [(200, row["id"]) for row in good] == [(row["status"], len(row["body"])) for row in good]


def test_the_order_is_that_of_the_input(server: str) -> None:
    found = headgate.ray.fetch(dataset(300, 3), url=server + "/{id}", drop=["body", "headers"], batch_size=50)
    blocks = [pa.table(block) for block in found.iter_batches(batch_format="pyarrow", batch_size=None)]
    assert {"body", "headers"}.isdisjoint(blocks[0].schema.names)
    for block in blocks:
        assert block["id"].to_pylist() == sorted(block["id"].to_pylist())


def test_blocks_overlap_in_one_engine_that_keeps_its_connections() -> None:
    with serving("--delay", "0.1") as server:
        # One batch alone has 4 rows in flight, and a busy machine may be too slow for 16.
        found = headgate.ray.fetch(dataset(800, 20), url=server + "/{id}", concurrency=16, batch_size=4)
        assert 800 == found.count()
        seen = stats(server)
        assert 800 == seen["requests"]
        assert 4 < seen["max_requests_in_progress"] <= 16
        # One more connection is that of `stats`.
        assert seen["connections_accepted"] <= 16 + 1


@pytest.mark.parametrize("block_bytes", [128 << 20, 10_000])
def test_a_worker_that_is_killed_is_another_ones_work_and_each_row_is_there_once(
    monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    # With small blocks, a task has delivered some when its worker dies, and Ray takes the rest from the second attempt.
    monkeypatch.setattr(ray.data.DataContext.get_current(), "target_max_block_size", block_bytes)
    with serving("--delay", "0.01") as server, ThreadPoolExecutor(1) as thread:
        found = headgate.ray.fetch(dataset(2000, 2), url=server + "/{id}", concurrency=16, batch_size=50)
        running = thread.submit(sorted_rows, found)
        wait_for_requests(server, 500)
        # On a busy machine, Ray may have started a second worker.
        killed = workers()
        assert killed
        for worker in killed:
            assert os.geteuid() != 0 or nice_levels(worker) == {os.getpriority(os.PRIO_PROCESS, parent(worker))}
            os.kill(worker, signal.SIGKILL)
        rows = running.result(200)
        assert list(range(2000)) == [row["id"] for row in rows]
        assert {200} == {row["status"] for row in rows}
        # Requests in flight at its end are sent once more.
        assert stats(server)["requests"] > 2000


@pytest.mark.parametrize(
    ("task_rows", "block_bytes", "warning"),
    [
        (
            1000,
            1 << 20,
            r"^a row of results has 1\.\d KiB here, so a task of 1,000 rows .* \(1\.0 MiB\): .*; give task_rows=(\d+),",
        ),
        (None, 10_000, r"so a task of 10 rows .*; give repartition\(target_num_rows_per_block=(\d)\),"),
        (500, 1 << 20, None),
        (None, 20_000, None),
        (1000, None, None),
    ],
)
def test_a_task_whose_results_are_more_than_a_block_is_warned_about_once(
    server: str, caplog: pytest.LogCaptureFixture, task_rows: int | None, block_bytes: int | None, warning: str | None
) -> None:
    fetch = headgate.ray.Fetch(None, task_rows, url=server + "/bytes/1000?{id}")

    async def main() -> None:
        for _ in range(2):
            assert 10 == (await fetch(pa.table({"id": range(10)}))).num_rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray.data.DataContext.get_current(), "target_max_block_size", block_bytes)
        asyncio.run(main())
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [warning is not None] * len(messages) == [
        bool(warning and re.search(warning, message)) for message in messages
    ]
    assert (warning is not None) == len(messages)
    if warning and task_rows and block_bytes:
        (fits,) = re.findall(warning, messages[0])
        assert block_bytes // 3 < int(fits) * 1300 < block_bytes


@pytest.mark.parametrize("batch_format", ["default", "pandas"])
def test_the_class_takes_each_format_of_batches(server: str, batch_format: str) -> None:
    found = dataset(100, 2).map_batches(
        headgate.ray.Fetch,
        fn_constructor_kwargs={"url": server + "/{id}", "concurrency": 4},
        batch_format=batch_format,
        num_cpus=0.25,
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    rows = sorted_rows(found)
    assert [(number, 200) for number in range(100)] == [(row["id"], row["status"]) for row in rows]


def test_the_programs_of_the_page_run(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    function, by_hand = programs_run_by("docs/clusters.md", "tests/integration/test_ray.py")
    variables: dict[str, Any] = {}
    exec(function.replace(ADDRESS, server), variables)  # noqa: S102 - our own
    assert "[{'id': 0, 'status': 200, 'error': None}]" in capsys.readouterr().out
    exec(by_hand.replace(ADDRESS, server), variables)  # noqa: S102 - our own
    assert [200] * 1000 == [row["status"] for row in sorted_rows(variables["results"])]


@pytest.mark.parametrize("name", ["ray.Fetch", "ray.fetch"])
def test_the_example_of_the_docstring_prints_what_it_shows(name: str, server: str) -> None:
    with asyncio.Runner() as runner:
        check(typed()[name], {"headgate": headgate, "ray": ray}, server, runner)


def test_a_worker_names_the_wrong_option() -> None:
    found = dataset(10, 1).map_batches(
        headgate.ray.Fetch,
        fn_constructor_kwargs={"urll": "http://127.0.0.1/{id}"},
        num_cpus=0.25,
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    with pytest.raises(Exception, match=r"unexpected keyword argument 'urll': did you mean url"):
        found.take_all()


def test_a_missing_column_is_named(server: str) -> None:
    found = headgate.ray.fetch(dataset(10, 1), url=server + "/{nr}")
    with pytest.raises(Exception, match='there is no column "nr" for url; the columns are "id"'):
        found.take_all()
