"""A throttled host delays no other host, also if more of its rows come first than fit into memory."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as package
from support.results import table
from support.run import LONGEST_S, headgate, serving, started, stats, wait_for

HELD: Final = 250_000
"""More than the 200,000 rows that may wait in memory."""
OTHERS: Final = 1_000


@contextmanager
def two_servers(*flags: str) -> Iterator[tuple[str, str]]:
    """Runs two hosts; the first has these flags."""
    with serving(*flags) as held, serving("--host", "127.0.0.2") as other:
        yield held, other


def sorted_by_host(path: Path, held: str, other: str) -> Path:
    """Writes all rows of one host, then those of the other."""
    urls = [f"{held}/{row}" for row in range(HELD)] + [f"{other}/{row}" for row in range(OTHERS)]
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"url": urls}), path, row_group_size=50_000)
    else:
        path.write_text("".join(f"{url}\n" for url in urls))
    return path


def requests(server: str) -> int:
    seen: int = stats(server)["requests"]
    return seen


def assert_each_row_succeeds_once(out: Path) -> None:
    found = table(out)
    assert list(range(HELD + OTHERS)) == found["row"].to_pylist()
    assert {200} == set(found["status"].to_pylist())


@pytest.mark.parametrize("source", ["urls.txt", "urls.parquet"])
def test_rows_that_do_not_fit_into_memory_are_deferred_and_later_rows_start_first(source: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with two_servers() as (held, other):
        rows = sorted_by_host(tmp_path / source, held, other)
        with package.start(rows, out, rate_per_host={"127.0.0.1": "1/h"}, progress=False) as run:
            wait_for(lambda: requests(other) == OTHERS)
            assert 1 == requests(held), "it is throttled as before"
            run.set(rate_per_host=None)
        assert (HELD, OTHERS) == (requests(held), requests(other)), "no request is sent twice"
    assert_each_row_succeeds_once(out)


def test_a_pipe_that_stops_being_read_is_the_bottleneck_and_nothing_is_lost(tmp_path: Path) -> None:
    out, pipe = tmp_path / "out", tmp_path / "urls.txt"
    os.mkfifo(pipe)
    with two_servers() as (held, other):
        feeding = threading.Thread(target=sorted_by_host, args=(pipe, held, other), daemon=True)
        feeding.start()
        with package.start(pipe, out, rate_per_host={"127.0.0.1": "1/h"}, progress=False) as run:
            wait_for(lambda: run.statistics().bottleneck.text.startswith("bottleneck: input. The 200,"))
            assert "most of them for 127.0.0.1" in run.statistics().bottleneck.text
            assert (1, 0) == (requests(held), requests(other)), "what comes after these rows was not read"
            run.set(rate_per_host=None)
        feeding.join()
        assert (HELD, OTHERS) == (requests(held), requests(other))
    assert_each_row_succeeds_once(out)


def test_a_host_that_asked_for_a_pause_gets_no_request_while_other_hosts_respond(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with two_servers("--api-rate", "1/50m") as (held, other):
        rows = sorted_by_host(tmp_path / "urls.txt", held, other)
        command = ("fetch", rows, "-o", out, "-c", "64", "--shutdown-timeout", "0")
        with started(*command) as job:
            wait_for(lambda: requests(other) == OTHERS)
            sent = requests(held)
            job.send_signal(signal.SIGINT)
            _, stderr = job.communicate(timeout=LONGEST_S)
        assert 130 == job.returncode, stderr
        assert sent == requests(held), "no request is sent before the time that the host named"
        assert sent <= 1 + 64, "the one with a response, and those in flight when the host requested a pause"
        assert 1 + OTHERS == table(out).num_rows, "waiting rows are left undone"
    with serving("--port", held.rpartition(":")[2]), serving("--host", "127.0.0.2", "--port", other.rpartition(":")[2]):
        headgate(*command, check=0)
        assert (HELD - 1, 0) == (requests(held), requests(other))
    assert_each_row_succeeds_once(out)


def test_a_host_that_refuses_some_rows_in_a_row_is_not_taken_for_one_that_refuses_everything(tmp_path: Path) -> None:
    summary, urls = tmp_path / "summary.json", tmp_path / "urls.txt"
    with serving() as server:
        paths = [f"status/503?{row}" for row in range(100)] + [str(row) for row in range(1_000)]
        urls.write_text("".join(f"{server}/{path}\n" for path in paths))
        flags = ["-c", "4", "--retries", "1", "--retry-delay", "0.1", "--host-down-after", "5"]
        flags += ["--max-failures", "never"]
        headgate("fetch", urls, "--format", "none", *flags, "--summary", summary, check=3)
    assert {"status:503": 100} == json.loads(summary.read_text())["errors"]
