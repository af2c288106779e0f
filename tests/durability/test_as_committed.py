"""Every command and function that reads a job returns what was committed."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate
from support import commits
from support.origin import changing
from support.results import Format
from support.run import HEADGATE, LONGEST_S, Done, headgate as run, started, wait_for

ROWS = 40


class Finished:
    """A finished job with failed rows, and all commands and functions that read it."""

    def __init__(self, out: Path, url: str, form: Format) -> None:
        self.out = out
        self.again = ("fetch", f"{url}/[1-{ROWS}]", "-o", out, "--format", form)
        run(*self.again, "-q", check=3)
        (self.part,), (self.failed,) = out.glob("part-*"), out.glob("failed-*")

    def outputs(self) -> dict[str, Done]:
        """Returns the output of every command that reads a job."""
        return {
            "status": run("status", self.out),
            "show": run("show", self.out),
            "resume": run(*self.again, "-q"),
            "retry": run("retry", self.out, "-q"),
        }


@pytest.fixture(params=["parquet", "ndjson"])
def finished(request: pytest.FixtureRequest, tmp_path: Path) -> Finished:
    with changing() as origin:
        origin.statuses |= {"/7": 503, "/9": 503}
        return Finished(tmp_path / "out", origin.url, request.param)


def lose_a_part(job: Finished) -> Path:
    job.part.unlink()
    return job.part


def cut_a_part(job: Finished) -> Path:
    os.truncate(job.part, job.part.stat().st_size - 1)
    return job.part


def add_a_part(job: Finished) -> Path:
    surplus = job.part.with_stem("part-00000099")
    surplus.write_bytes(job.part.read_bytes())
    return surplus


def flip_a_bit(path: Path) -> Path:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    times = path.stat()
    path.write_bytes(content)
    # A disk error changes no modification time.
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return path


def flip_a_bit_of_the_succeeded(job: Finished) -> Path:
    return flip_a_bit(job.part)


def flip_a_bit_of_the_failed(job: Finished) -> Path:
    return flip_a_bit(job.failed)


@pytest.mark.parametrize(
    "damage", [lose_a_part, cut_a_part, add_a_part, flip_a_bit_of_the_succeeded, flip_a_bit_of_the_failed]
)
def test_a_part_that_is_not_what_was_committed_is_named_by_every_command(
    damage: Callable[[Finished], Path], finished: Finished
) -> None:
    path = damage(finished)
    for name, done in finished.outputs().items():
        assert (1, "") == (done.code, done.stdout), (name, done.stderr)
        assert f"{path} is " in done.stderr, (name, done.stderr)
        assert ("restore it from a copy" in done.stderr) != ("move it out of the directory" in done.stderr), name
    with pytest.raises(headgate.OutputError, match=path.name):
        headgate.Job.open(finished.out)


def test_rows_are_compared_when_they_are_read_and_not_only_when_they_are_listed(finished: Finished) -> None:
    rows = headgate.Job.open(finished.out).rows()
    flip_a_bit(finished.part)
    with pytest.raises(headgate.OutputError, match=f"{finished.part.name} is damaged: its content is not what was"):
        next(iter(rows))
    with pytest.raises(OSError, match="is damaged"):
        pa.table(rows)


def test_one_file_of_a_job_is_not_shown_either_when_it_was_changed(finished: Finished) -> None:
    run("show", finished.failed, check=0)
    flip_a_bit(finished.failed)
    assert f"{finished.failed} is damaged" in run("show", finished.failed, check=1).stderr


def test_a_running_job_is_compared_with_its_checksums_on_request(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.held |= {f"/{row}" for row in range(20, ROWS + 1)}
        with started("fetch", f"{origin.url}/[1-{ROWS}]", "-o", out, "--commit-interval", "0.01", "-q") as fetch:
            commits.wait_for(1, out, fetch)
            run("verify", out, check=0)
            part = flip_a_bit(next(out.glob("part-*")))
            # A plain status is shown at once. The first heartbeat may still be that of the start.
            wait_for(lambda: "running now" in run("status", out, check=5).stdout)
            assert f"{part} is damaged" in run("verify", out, check=1).stdout
            problems = headgate.Job.open(out).verify().problems
            assert ["damaged_file", "lost_rows"] == [problem.kind for problem in problems]


def test_other_readers_can_notice_a_change_in_any_page_of_a_parquet_file(tmp_path: Path) -> None:
    with changing() as origin:
        job = tmp_path / "out"
        headgate.fetch(f"{origin.url}/[1-{ROWS}]", job)
    (part,) = job.glob("*.parquet")
    sound = part.read_bytes()
    expected = pq.read_table(part, page_checksum_verification=True)
    columns = pq.ParquetFile(part).metadata.row_group(0)
    for index in range(columns.num_columns):
        column = columns.column(index)
        # Its last byte belongs to its last page, whose header comes before it.
        start = column.dictionary_page_offset or column.data_page_offset
        at = start + column.total_compressed_size - 1
        part.write_bytes(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1 :])
        with pytest.raises(OSError, match="CRC checksum verification failed"):
            pq.read_table(part, page_checksum_verification=True)
    part.write_bytes(sound)
    assert expected.equals(pq.read_table(part))


HOLDER = """
import os, sys, headgate
import threading

fetch = threading.Thread(target=headgate.fetch, args=sys.argv[1:3], kwargs={"commit_interval": 0.01}, daemon=True)
fetch.start()
sys.stdin.readline()
child = os.fork()
if child == 0:
    sys.stdin.readline()  # until the test ends
    os._exit(0)
print(child, flush=True)
sys.stdin.readline()
"""


def test_the_lock_of_a_process_that_was_killed_does_not_live_on_in_its_children(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        again = (f"{origin.url}/[1-{ROWS}]", str(out))
        # These get no response until the job is killed.
        origin.held |= {f"/{row}" for row in range(20, ROWS + 1)}
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, *again], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as holder:
            assert holder.stdin is not None
            assert holder.stdout is not None
            commits.wait_for(1, out, holder)
            held = headgate.Job.open(out).status()
            assert (True, holder.pid) == (held.running, held.pid)
            print("fork", file=holder.stdin, flush=True)
            child = int(holder.stdout.readline())
            holder.send_signal(signal.SIGKILL)
            holder.wait(LONGEST_S)
            try:
                assert not headgate.Job.open(out).status().running
                origin.released.set()
                summary = headgate.fetch(*again)
                assert summary.job is not None
                assert (ROWS, True) == (summary.job.succeeded, summary.job.finished)
                os.kill(child, 0)  # it is still alive
            finally:
                os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("pipe", [False, True])
def test_results_are_not_thrown_away_for_an_input_without_rows(pipe: bool, finished: Finished, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in finished.out.glob("*.*")}
    empty = tmp_path / "empty.txt"
    empty.write_text("\n" if pipe else "")
    source = "-" if pipe else str(empty)
    with empty.open() as stdin:
        done = subprocess.run(
            [HEADGATE, "fetch", source, "-o", finished.out, "--if-exists", "overwrite", "-y"],
            stdin=stdin,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
    name = "standard input" if pipe else str(empty)
    assert 2 == done.returncode, done.stderr
    assert (
        f"{name} has no rows, and --if-exists overwrite would remove the results in {finished.out} for it"
        in done.stderr
    )
    assert before == {path: path.read_bytes() for path in finished.out.glob("*.*")}
    assert headgate.Job.open(finished.out).status().finished


def test_rows_that_come_through_a_pipe_replace_results_when_they_come(finished: Finished) -> None:
    done = run("fetch", "-", "-o", finished.out, "--if-exists", "overwrite", "-y", "-q", stdin="ftp://a/\n", check=3)
    assert "1 of 1 row failed (invalid_request 1)\n" == done.stderr
    assert (1, 1) == ((status := headgate.Job.open(finished.out).status()).done, status.failed)


SECOND_THREAD = """
import ctypes, sys, threading, headgate

threading.Thread(target=headgate.fetch, args=sys.argv[1:3], kwargs={"commit_interval": 0.01}).start()
sys.stdin.readline()
ctypes.CDLL(None).pthread_exit(None)  # the first thread: the system calls its process a zombie from now on
"""


def test_a_process_lives_as_long_as_its_last_thread_and_so_does_its_lock(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        again = (f"{origin.url}/[1-{ROWS}]", str(out))
        origin.held |= {f"/{row}" for row in range(20, ROWS + 1)}
        with subprocess.Popen(
            [sys.executable, "-c", SECOND_THREAD, *again], stdin=subprocess.PIPE, text=True
        ) as holder:
            try:
                commits.wait_for(1, out, holder)
                assert holder.stdin is not None
                print("end", file=holder.stdin, flush=True)
                while ") Z " not in Path(f"/proc/{holder.pid}/stat").read_text():
                    assert holder.poll() is None
                assert headgate.Job.open(out).status().running
                with pytest.raises(headgate.OutputError, match=f"another headgate .pid {holder.pid}. is writing to"):
                    headgate.fetch(*again)
            finally:
                holder.kill()
