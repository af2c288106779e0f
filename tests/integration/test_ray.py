"""`headgate.ray`: a stage of Ray Data, on a cluster of one small node on loopback."""

import os
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
from support.run import serving, stats, wait_for, wait_for_requests

ray = pytest.importorskip("ray", reason="ray is not installed: pip install -r requirements/clusters.txt")
pytest.importorskip("ray.data")

# Those that Ray and what it is made of cause among themselves.
pytestmark = [pytest.mark.timeout(120), pytest.mark.filterwarnings("default")]

RAY = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DATA_DISABLE_PROGRESS_BARS": "1",
}


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    """One node of two CPUs. The paths of its sockets have to be short."""
    with tempfile.TemporaryDirectory(prefix="ray-") as place, pytest.MonkeyPatch.context() as patch:
        for name, value in (RAY | {"RAY_AUTH_TOKEN": secrets.token_hex(32)}).items():
            patch.setenv(name, value)
        ray.init(
            num_cpus=2,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="warning",
            object_store_memory=100 << 20,
            _node_ip_address="127.0.0.1",
            _temp_dir=place,
        )
        try:
            yield
        finally:
            ray.shutdown()


def dataset(rows: int, blocks: int) -> Any:
    return ray.data.range(rows, override_num_blocks=blocks)


def sorted_rows(results: Any) -> list[dict[str, Any]]:
    return sorted(results.take_all(), key=lambda row: int(row["id"]))


def workers() -> list[int]:
    """Processes of this cluster that make requests."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            title = (process / "cmdline").read_bytes()
            if (
                title.startswith(b"ray::MapWorker(MapBatches(Fetch)")
                and parent(parent(int(process.name))) == os.getpid()
            ):
                found.append(int(process.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


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
    found = headgate.ray.fetch(dataset(300, 3), url=server + "/{id}", omit=["body", "headers"], batch_size=50)
    blocks = [pa.table(block) for block in found.iter_batches(batch_format="pyarrow", batch_size=None)]
    assert {"body", "headers"}.isdisjoint(blocks[0].schema.names)
    for block in blocks:
        assert block["id"].to_pylist() == sorted(block["id"].to_pylist())


def test_blocks_overlap_in_one_engine_that_keeps_its_connections() -> None:
    with serving("--delay", "0.02") as server:
        # A batch alone has 4 rows in flight.
        found = headgate.ray.fetch(dataset(800, 20), url=server + "/{id}", concurrency=16, batch_size=4)
        assert 800 == found.count()
        seen = stats(server)
        assert (800, 16) == (seen["requests"], seen["max_requests_in_progress"])
        # One more is that of `stats`.
        assert seen["connections_accepted"] <= 16 + 1


def test_a_worker_that_is_killed_is_another_ones_work_and_each_row_is_there_once() -> None:
    with serving("--delay", "0.01") as server, ThreadPoolExecutor(1) as thread:
        found = headgate.ray.fetch(dataset(2000, 10), url=server + "/{id}", concurrency=16, batch_size=100)
        running = thread.submit(sorted_rows, found)
        wait_for_requests(server, 500)
        (worker,) = workers()
        os.kill(worker, signal.SIGKILL)
        rows = running.result(60)
        assert list(range(2000)) == [row["id"] for row in rows]
        assert {200} == {row["status"] for row in rows}
        # Those in flight at its end are asked again.
        assert stats(server)["requests"] > 2000


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may lower the nice level of a process")
def test_workers_are_as_nice_as_ray() -> None:
    with serving("--delay", "0.1") as server, ThreadPoolExecutor(1) as thread:
        found = headgate.ray.fetch(dataset(100, 2), url=server + "/{id}", concurrency=2, batch_size=10)
        running = thread.submit(found.count)
        wait_for_requests(server, 4)
        (worker,) = workers()
        levels = {os.getpriority(os.PRIO_PROCESS, int(each.name)) for each in Path(f"/proc/{worker}/task").iterdir()}
        assert {os.getpriority(os.PRIO_PROCESS, parent(worker))} == levels
        running.result(60)


@pytest.mark.parametrize("batch_format", ["default", "pandas", "pyarrow"])
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


def test_a_worker_tells_which_option_is_wrong() -> None:
    found = dataset(10, 1).map_batches(
        headgate.ray.Fetch,
        fn_constructor_kwargs={"urll": "http://127.0.0.1/{id}"},
        num_cpus=0.25,
        compute=ray.data.ActorPoolStrategy(size=1),
    )
    with pytest.raises(Exception, match=r"unexpected keyword argument 'urll': did you mean url"):
        found.take_all()


def test_a_column_that_is_missing_is_told(server: str) -> None:
    found = headgate.ray.fetch(dataset(10, 1), url=server + "/{nr}")
    with pytest.raises(Exception, match='there is no column "nr" for url; the columns are "id"'):
        found.take_all()


def test_no_process_is_left(server: str) -> None:
    assert 10 == headgate.ray.fetch(dataset(10, 1), url=server + "/{id}").count()
    wait_for(lambda: workers() == [])
