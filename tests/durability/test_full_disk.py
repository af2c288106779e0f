"""If the disk fails, the job stops and says why, committed results can be read, and the same command resumes it."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from support import commits, ledger
from support.disks import frozen, limited, small_disk
from support.ledger import Ending
from support.mixture import mixture, write_urls
from support.run import HEADGATE, LONGEST_S, Done, headgate, started, stats

ROWS = 20_000


class Task(NamedTuple):
    """The rows of a job, and their expected outcomes."""

    source: Path
    expected: Sequence[Ending]

    def command(self, out: Path, *flags: str) -> list[str | Path]:
        return ["fetch", self.source, "-o", out, "-c", "32", "--commit-interval", "0.2", "--retries", "0", *flags]


@pytest.fixture
def task(server: str, tmp_path: Path) -> Task:
    expected = mixture(server, ROWS)
    return Task(write_urls(tmp_path / "urls.txt", expected), expected)


def committed_rows_are_readable(out: Path) -> bool:
    """Returns whether the readable rows are those of the newest commit, each once."""
    rows = [row for part in ledger.parts(out) for row in ledger.ordinals(part)]
    return commits.done(out) == len(rows) == len(set(rows))


@pytest.mark.parametrize(("form", "size"), [("parquet", "300k"), ("ndjson", "4m")])
def test_a_full_disk_stops_the_job_which_resumes_when_there_is_space(
    form: str, size: str, server: str, task: Task, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", size) as disk:
        out = disk.path / "out"
        flags = ("--format", form, "--min-free", "0")
        full = headgate(*task.command(out, *flags), check=1)
        assert "no space left on device" in full.errors()[0]
        assert str(out) in full.errors()[0]
        assert 0 < commits.done(out) < ROWS
        assert committed_rows_are_readable(out)

        again = headgate(*task.command(out, *flags))
        assert (1, True) == (again.code, committed_rows_are_readable(out)), "it is still full"

        disk.remount("size=64m")
        done = commits.done(out)
        before = stats(server)["requests"]
        headgate(*task.command(out, *flags), check=3)
        assert ROWS - done == stats(server)["requests"] - before
        assert [] == ledger.mistakes(out, task.expected)


@pytest.mark.parametrize(
    ("flags", "free_mib"), [(("--format", "parquet"), 63.5), (("--format", "ndjson"), 60), (("--save-to", "{row}"), 50)]
)
def test_a_job_stops_before_the_disk_is_full_and_commits_all_that_it_has_received(
    flags: tuple[str, str], free_mib: float, server: str, task: Task, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", "64m") as disk:
        out = disk.path / "out"
        command = task.command(out, *flags, "--min-free", f"{free_mib}MiB")
        before = stats(server)["requests"]
        stopped = headgate(*command, check=1)
        assert f"error: the file system of {out} has only " in stopped.stderr
        assert (
            f"{free_mib:.1f} MiB must stay free (--min-free): free some space, and the same command continues"
            in (stopped.errors()[0])
        )
        done = commits.done(out)
        assert 0 < done < ROWS
        assert done == stats(server)["requests"] - before, "something that was received is not committed"
        assert committed_rows_are_readable(out)

        before = stats(server)["requests"]
        headgate(*task.command(out, *flags, "--min-free", "64MiB"), check=1)
        assert before == stats(server)["requests"], "it was started although there is too little space"

        disk.remount("size=512m")
        headgate(*command, check=3)
        assert ROWS - done == stats(server)["requests"] - before
        if "--save-to" in flags:
            assert committed_rows_are_readable(out)
            assert len(list(out.glob("[0-9]*"))) == sum(
                (ending.status, ending.error) == (200, None) for ending in task.expected
            )
        else:
            assert [] == ledger.mistakes(out, task.expected)


def test_a_read_only_disk_is_an_error_and_nothing_is_lost(task: Task, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64m") as disk:
        out = disk.path / "out"
        with started(*task.command(out)) as process:
            commits.wait_for(3, out, process)
            process.terminate()
            process.communicate(timeout=LONGEST_S)
        disk.remount("ro")
        refused = headgate(*task.command(out), check=1)
        assert "read-only file system" in refused.errors()[0]
        assert str(out) in refused.errors()[0]
        assert committed_rows_are_readable(out)
        disk.remount("rw")
        headgate(*task.command(out), check=3)
        assert [] == ledger.mistakes(out, task.expected)


@pytest.mark.parametrize("where", [".", "_headgate/log", "_headgate/tmp"])
def test_a_directory_that_becomes_read_only_stops_the_job_which_resumes_later(
    where: str, task: Task, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with started(*task.command(out)) as process:
        commits.wait_for(2, out, process)
        with frozen(out / where):
            stderr = process.communicate(timeout=LONGEST_S)[1]
            assert 1 == process.returncode, stderr
            assert "operation not permitted" in stderr
            assert str(out) in stderr
            assert "Traceback" not in stderr
            assert [] == ledger.twice(out)
    headgate(*task.command(out), check=3)
    assert [] == ledger.mistakes(out, task.expected)


def test_a_file_that_becomes_too_large_stops_the_job_which_resumes_later(task: Task, tmp_path: Path) -> None:
    out = tmp_path / "out"
    wanted = task.command(out, "--format", "ndjson")
    process = subprocess.run(
        limited([HEADGATE, *wanted], file_bytes=1024 * 1024), capture_output=True, timeout=LONGEST_S, check=False
    )
    stopped = Done(process)
    assert 1 == stopped.code, stopped.stderr
    assert "file too large" in stopped.errors()[0]
    assert str(out) in stopped.errors()[0]
    assert committed_rows_are_readable(out)
    headgate(*wanted, check=3)
    assert [] == ledger.mistakes(out, task.expected)
