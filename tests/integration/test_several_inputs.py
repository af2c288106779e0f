"""Several files, directories and patterns as one input, on the command line and in Python."""

import asyncio
import json
import signal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as package
from support.origin import changing
from support.results import rows, table
from support.run import headgate, serving, started, stats, wait_for_requests

DAYS = ("2026-01-01", "2026-01-02", "2026-01-03")
ROWS = 200
"""The rows of each day, in two files."""


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_days(server: str, directory: str = "data") -> list[str]:
    """Writes Parquet below a directory for each day, and returns the URLs in order."""
    urls = []
    for day in DAYS:
        for file in range(2):
            here = [f"{server}/{day}/{file}/{row}" for row in range(ROWS // 2)]
            path = Path(directory, f"day={day}", f"{file}.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(pa.table({"url": here, "id": list(range(len(here)))}), path)
            urls += here
    Path(directory, "_SUCCESS").touch()
    return urls


def write_lists(server: str) -> None:
    for name in "abc":
        Path(f"{name}.txt").write_text(f"{server}/{name}0\n{server}/{name}1\n")


def paths(out: str) -> list[str]:
    return [row["url"].rpartition("/")[2] for row in rows(Path(out))]


def test_a_job_over_a_partitioned_directory_that_is_killed_has_each_row_once() -> None:
    with serving("--delay", "0..0.05") as server:
        urls = write_days(server)
        command = ("fetch", "data", "-o", "out", "-c", "20", "--keep", "day,id", "--commit-interval", "0.05", "-q")
        for requests in (60, 300):
            with started(*command) as process:
                wait_for_requests(server, requests)
                process.send_signal(signal.SIGKILL)
                process.wait()
        headgate(*command, check=0)
        results = table(Path("out"))
        assert urls == results["url"].to_pylist()
        assert list(range(len(urls))) == results["row"].to_pylist()
        assert [day for day in DAYS for _ in range(ROWS)] == results["day"].to_pylist()
        assert [*range(ROWS // 2)] * 6 == results["id"].to_pylist()
        requests = stats(server)["requests"]
        headgate(*command, check=0)
        assert requests == stats(server)["requests"]


def test_inputs_are_read_in_the_order_in_which_they_are_typed(server: str) -> None:
    write_lists(server)
    headgate("fetch", "c.txt", "-q", "a.txt", "-o", "out", "b.txt", check=0)
    assert ["c0", "c1", "a0", "a1", "b0", "b1"] == paths("out")
    headgate("fetch", "-o", "pattern", "[!a].txt", "a.txt", "-q", check=0)
    assert ["b0", "b1", "c0", "c1", "a0", "a1"] == paths("pattern")
    status = json.loads(headgate("status", "out", "--as-json", check=0).stdout)
    assert ("3 files: c.txt, a.txt, b.txt", 6) == (status["input"], status["done"])


def test_python_takes_paths_patterns_and_lists_of_them(server: str) -> None:
    write_lists(server)
    assert 6 == package.fetch(["b.txt", Path("a.txt"), "c.*"], "out").rows
    assert ["b0", "b1", "a0", "a1", "c0", "c1"] == paths("out")
    write_days(server)
    assert len(DAYS) * ROWS == package.fetch(Path("data"), "second").rows
    assert 6 == asyncio.run(_started("*.txt"))
    plan = package.plan(("a.txt", "b.txt"))
    assert ("2 files: a.txt, b.txt", 4) == (plan.input, plan.rows)
    with pytest.raises(package.UsageError, match=r"^input must be a path, text, or a list of them, not int$"):
        package.fetch(5, "out")  # type: ignore[arg-type] # the mistake
    with pytest.raises(package.UsageError, match=r"^input is missing: "):
        package.fetch([], "out")


async def _started(pattern: str) -> int:
    return (await package.start(pattern, "third")).rows


def test_only_files_can_be_combined_with_other_inputs(server: str) -> None:
    write_lists(server)
    for other, what in (("-", "-"), (f"{server}/[1-9]", "a URL")):
        refused = headgate("fetch", "a.txt", other, "-o", "out", check=2)
        assert [f"INPUT {what} can't be combined with other inputs: only files can"] == refused.errors()
    refused = headgate("fetch", "a.txt", "./a.txt", "-o", "out", check=2)
    assert ["./a.txt: is the same file as a.txt: its rows would be requested twice"] == refused.errors()
    refused = headgate("fetch", "*.txt", ".", "-o", "out", check=2)
    assert [
        (
            "--output lies within the input .: its results would be taken for input when the job is resumed;"
            " choose another directory"
        )
    ] == refused.errors()
    assert not Path("out").exists()


def test_a_file_that_is_added_at_the_end_is_growth_and_failed_rows_are_retried_from_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with changing() as origin:
        origin.statuses["/a1"] = 503
        Path("d").mkdir()
        Path("d/a.csv").write_text(f"url,id\n{origin.url}/a0,0\n{origin.url}/a1,1\n")
        Path("d/b.csv").write_text(f"id,url\n2,{origin.url}/b0\n")
        command = ("fetch", "d/*.csv", "-o", "out", "--keep", "id", "--retries", "0", "-q")
        headgate(*command, check=3)
        Path("d/c.csv").write_text(f"url,id\n{origin.url}/c0,3\n")
        refused = headgate(*command, check=2)
        assert refused.errors()[0].startswith("d/*.csv: it has only grown: its first 3 rows are unchanged")
        headgate(*command, "--allow-append", check=3)
        assert ["0", "1", "2", "3"] == table(Path("out"))["id"].to_pylist()

        origin.statuses.clear()
        out = Path("out").resolve()
        Path("other").mkdir()
        monkeypatch.chdir("other")
        headgate("retry", out, "-q", check=0)
        assert [200] * 4 == table(out)["status"].to_pylist()
        assert 5 == len(origin.requests)
