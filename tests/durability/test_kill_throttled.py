"""`kill -9` while rows are throttled, deferred or waiting for a retry: none is lost or doubled."""

import json
import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import commits, ledger
from support.moody import Moody, moody
from support.origin import changing
from support.run import LONGEST_S, headgate, started, wait_for

HOSTS: Final = 6
ROWS_OF_A_HOST: Final = 1_000
ROWS: Final = HOSTS * ROWS_OF_A_HOST
BODY_BYTES: Final = 12 * 1024
FIT_INTO_MEMORY: Final = 32 * 1024 * 1024 // BODY_BYTES
"""The most rows that are read ahead."""
STOPS: Final = {
    signal.SIGKILL: -9,
    signal.SIGINT: 130,
    signal.SIGTERM: 143,
}
"""Signals, each with its exit code."""


class Job:
    """Writes a list that is sorted by host and longer than the look-ahead, of requests that aren't idempotent."""

    def __init__(self, server: Moody, directory: Path, *flags: str) -> None:
        self.server, self.out = server, directory / "out"
        self.urls = [f"{server.hosts[row // ROWS_OF_A_HOST]}/{row}" for row in range(ROWS)]
        source = directory / "rows.parquet"
        table = pa.table({"url": self.urls, "body": ["x" * BODY_BYTES] * ROWS})
        pq.write_table(table, source, row_group_size=ROWS // 5)
        self.command: list[str | Path] = ["fetch", source, "-o", self.out, "-X", "POST", "-c", "64", *flags]
        self.command += ["--body-column", "body"]
        self.command += ["--commit-interval", "0.2", "--rate", "3000/s", "--rate-per-host", "400/s"]
        self.command += ["--retries", "3", "--retry-delay", "0.2", "--idempotency-key"]

    def requests_to_last_host(self) -> int:
        """Returns how many requests for its rows were sent."""
        return sum(len(self.server.keys.get(row, ())) for row in range(ROWS - ROWS_OF_A_HOST, ROWS))

    def works_on_everything(self, more: int) -> Callable[[], bool]:
        """Returns a condition: `more` requests had a response, some to the last host, and rows wait for a retry."""
        has_sent, requests_before = self.has_sent(more), self.requests_to_last_host()
        return lambda: has_sent() and self.server.waiting() > 0 and self.requests_to_last_host() > requests_before

    def has_sent(self, more: int) -> Callable[[], bool]:
        """Returns a condition: `more` requests had a response."""
        least = self.server.succeeded + more
        return lambda: self.server.succeeded >= least

    def mistakes(self) -> list[str]:
        """Returns the mistakes in the results and in the keys that the server received."""
        wrong = ledger.mistakes(self.out, [self.server.ending(row, url) for row, url in enumerate(self.urls)])
        keys = [set(self.server.keys[row]) for row in range(ROWS)]
        wrong += [f"row {row} has the keys {sent}" for row, sent in enumerate(keys) if len(sent) != 1 or None in sent]
        different = len(set().union(*keys))
        return wrong if different == ROWS else [*wrong, f"{ROWS} rows have {different} keys"]


@pytest.mark.parametrize("form", ["parquet", "ndjson"])
def test_killed_while_rows_are_throttled_a_job_loses_nothing_and_doubles_nothing(form: str, tmp_path: Path) -> None:
    chance = random.Random(form)  # noqa: S311 - no secret
    stops = [signal.SIGKILL, *chance.sample([signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM], 4)]
    with moody(HOSTS) as server:
        job = Job(server, tmp_path, "--format", form, "--concurrency-per-host", "2")
        for number, stop in enumerate(stops):
            now = job.works_on_everything(chance.randint(200, 600))
            with started(*job.command) as process:
                # Before that, the job has nothing to resume.
                commits.wait_for(1, job.out, process)
                server.until(now)
                if number == 0:
                    read_in_turn = ROWS - ROWS_OF_A_HOST - FIT_INTO_MEMORY
                    assert server.succeeded < read_in_turn, "the last host was reached after earlier rows were deferred"
                if stop != signal.SIGKILL:
                    # A refusal while the job stops is the final outcome.
                    server.is_calm = True
                    server.until(job.has_sent(200))
                process.send_signal(stop)
                _, stderr = process.communicate(timeout=LONGEST_S)
            server.is_calm = False
            assert STOPS[stop] == process.returncode, stderr
            assert [] == ledger.twice(job.out)
        assert 0 < commits.done(job.out) < ROWS
        headgate(*job.command, check=3)
        assert [] == job.mistakes()


@pytest.mark.timeout(180)
def test_set_options_and_a_pause_hold_after_a_kill(tmp_path: Path) -> None:
    with moody(HOSTS, delay_s=0.002) as server:
        job = Job(server, tmp_path)
        with started(*job.command) as process:
            commits.wait_for(1, job.out, process)
            server.until(job.works_on_everything(300))
            headgate("set", job.out, "--concurrency-per-host", "1", "--total-timeout", "90", check=0)
            headgate("pause", job.out, check=0)
            process.kill()
        wait_for(lambda: not server.connections)
        assert server.most_at_once > 1
        sent, server.most_at_once = sum(map(len, server.keys.values())), 0
        with started(*job.command) as process:
            wait_for(lambda: status(job.out)["pid"] == process.pid and status(job.out)["running"])
            found = status(job.out)
            assert ({"concurrency_per_host": "1", "total_timeout": "90"}, True) == (found["set"], found["paused"])
            assert sent == sum(map(len, server.keys.values())), "no request is sent while the job is paused"
            headgate("unpause", job.out, check=0)
            server.until(lambda: server.succeeded > sent)
            process.kill()
        headgate(*job.command, check=3)
        assert 1 == server.most_at_once
        assert [] == job.mistakes()


def status(out: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(headgate("status", out, "--as-json").stdout)
    return figures


def test_killed_before_its_first_commit_a_job_has_the_same_keys_the_next_time(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        fetch = ("fetch", f"{origin.url}/[1-4]", "-X", "POST", "--idempotency-key", "-o", out)
        origin.held = {"/3"}
        with started(*fetch, "--commit-interval", "600") as job:
            wait_for(lambda: len(origin.requests) == 4)
            job.kill()
        origin.released.set()
        assert 0 == commits.done(out)
        headgate(*fetch, check=0)
        assert [(2, 1)] * 4 == [(len(keys), len(set(keys))) for keys in origin.keys.values()]


def test_a_row_that_is_refused_while_the_job_stops_is_retried_by_the_next_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.held, origin.statuses = {"/4"}, {"/4": 503}
        fetch = ("fetch", f"{origin.url}/[1-4]", "-o", out)
        with started(*fetch) as job:
            wait_for(lambda: len(origin.requests) == 4)
            job.send_signal(signal.SIGINT)
            assert job.stderr is not None
            while not job.stderr.readline().startswith("stopping"):
                pass
            origin.released.set()
            job.communicate(timeout=LONGEST_S)
        assert 3 == commits.done(out)
        origin.statuses = {}
        headgate(*fetch, check=0)
