"""`headgate files`, `verify` and `clean`: files of a commit, whether they are sound, and those that no commit names."""

import contextlib
import json
import os
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as package
from support import commits, ledger
from support.origin import changing
from support.run import LONGEST_S, headgate, serving, started, wait_for, wait_for_requests

ROWS = 20
ENDLESS_BYTES = 1 << 40
ENDLESS_SUM = "2e172e6917dd8b02998b6e40d1a2c24c"
"""The XXH3-128 of `part-00000001.parquet 20 1099511627776 7`, as a commit has it for its list of parts."""


def fetch(url: str, out: Path, *flags: str, check: int) -> None:
    headgate("fetch", f"{url}/[1-{ROWS}]", "-o", out, "-q", "--retries", "0", *flags, check=check)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def has_ended_with(part: Path) -> bool:
    """Returns whether a retry has written this part, and all that it commits."""
    return part.exists() and package.Job.open(part.parent).status().finished


def is_keeping(out: Path) -> bool:
    return package.Job.open(out).status().state == "keeping"


def numbers(files: list[dict[str, object]]) -> list[int]:
    return sorted(row for file in files for row in pq.read_table(str(file["path"]))["row"].to_pylist())


def test_the_files_of_a_commit_have_each_row_once(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses |= {"/2": 503, "/4": 429}
        fetch(origin.url, out, check=3)
    names = ["part-00000001.parquet", "failed-00000001.parquet"]
    assert [str(out / name) for name in names] == headgate("files", out, check=0).stdout.splitlines()
    listed = json.loads(headgate("files", out, "--json", check=0).stdout)
    assert ("parquet", True, ROWS) == (listed["format"], listed["delta"], listed["rows"])
    assert (list(range(ROWS)), [False, True]) == (
        numbers(listed["files"]),
        [file["failed"] for file in listed["files"]],
    )


def test_there_is_a_file_with_the_columns_before_the_first_commit(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server, started("fetch", f"{server}/delay/60", "-o", out, "--shutdown-timeout", "0") as process:
        wait_for_requests(server, 1)
        (path,) = headgate("files", out, check=0).stdout.splitlines()
        table = pq.read_table(path)
        assert [path] == [str(file) for file in out.glob("*.parquet")]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONGEST_S)
    assert (0, "row", "remote_addr") == (table.num_rows, table.column_names[0], table.column_names[-1])
    headgate("status", out, check=6)


def test_rows_are_those_of_one_commit_although_a_retry_replaces_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses |= {"/2": 503, "/4": 429}
        fetch(origin.url, out, check=3)
        rows = package.Job.open(out).rows()
        origin.statuses.clear()
        headgate("retry", out, "-q", check=0)
    assert not list(out.glob("failed-*"))
    for _ in range(2):
        table = pa.table(rows)
        assert (list(range(ROWS)), 2) == (sorted(table["row"].to_pylist()), table["failed"].to_pylist().count(True))
    assert 0 == pa.table(package.Job.open(out).rows())["failed"].to_pylist().count(True)


def test_what_was_kept_for_readers_is_removed_by_clean(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses |= {"/2": 503}
        fetch(origin.url, out, check=3)
        origin.statuses.clear()
        replaced = out / "failed-00000001.parquet"
        retry = ("retry", out, "--keep-replaced", "10m")
        for keeping in (retry, (*retry, "--only", "timeout"), ("fetch", f"{origin.url}/[1-{ROWS}]", "-o", *retry[1:])):
            with started(*keeping) as process:
                wait_for(lambda: is_keeping(out))
                assert process.poll() is None, "it keeps the file"
                process.send_signal(signal.SIGINT)
                _, notes = process.communicate(timeout=LONGEST_S)
            assert 0 == process.returncode
            assert "replaced files stay in" in notes
            assert replaced.exists()
    headgate("status", out, check=0)
    assert [str(out / "part-00000003.parquet")] == package.Job.open(out).files()
    foreign, temporary = out / "part-00000077.parquet", out / "_headgate" / "tmp" / "part-00000009.parquet.tmp"
    foreign.write_bytes(b"half")
    temporary.write_bytes(b"a file")
    assert "no commit of this job names it" in headgate("status", out, check=1).stderr
    dry = headgate("clean", out, "--dry-run", check=0).stdout
    assert all(path.exists() for path in (replaced, foreign, temporary))
    done = headgate("clean", out, check=0).stdout
    assert dry.replace("nothing was removed", "removed") == done
    for path in (replaced, foreign, temporary):
        assert str(path) in done
        assert not path.exists()
    assert "0 files, 0 B: removed" == headgate("clean", out, check=0).stdout.strip()
    headgate("verify", out, check=0)


def test_a_retry_that_is_killed_while_it_keeps_files_leaves_a_job_that_is_complete(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses |= {"/2": 503}
        fetch(origin.url, out, check=3)
        replaced = out / "failed-00000001.parquet"
        for keep, code in (("10m", None), ("0", 3)):
            with started("retry", out, "-q", "--retries", "0", "--keep-replaced", keep) as process:
                if code is None:
                    wait_for(lambda: has_ended_with(out / "failed-00000002.parquet"))
                    process.kill()
                process.communicate(timeout=LONGEST_S)
            assert code is None or code == process.returncode
            assert replaced.exists() == (code is None)
            headgate("status", out, check=3)
            assert ROWS == pa.table(package.Job.open(out).rows()).num_rows
    assert [] == ledger.twice(out)


def test_a_damaged_file_is_found_and_its_rows_are_fetched_again(tmp_path: Path) -> None:
    out, source = tmp_path / "out", tmp_path / "urls.txt"
    with changing() as origin:
        source.write_text("".join(f"{origin.url}/{row}\n" for row in range(1, ROWS + 1)))
        origin.statuses |= {"/2": 503}
        for damage in (Path.unlink, shorten):
            headgate("fetch", source, "-o", out, "-q", "--retries", "0", check=3)
            assert f"{ROWS} rows in 2 files: no problems\n" == headgate("verify", out, check=0).stdout
            (part,) = out.glob("part-*.parquet")
            damage(part)
            found = headgate("verify", out, check=1)
            assert f"{part} is " in found.stdout
            assert f"{ROWS - 1} rows are done and in no intact file, the first is row 0" in found.stdout
            repaired = json.loads(headgate("verify", out, "--repair", "--json", check=0).stdout)
            assert (ROWS - 1, [], 1) == (repaired["repaired_rows"], repaired["problems"], repaired["rows"])
            headgate("status", out, check=6)
            headgate("fetch", source, "-o", out, "-q", "--retries", "0", check=3)
            assert sorted(pa.table(package.Job.open(out).rows())["row"].to_pylist()) == list(range(ROWS))
            headgate("verify", out, check=0)


def test_a_repair_of_a_job_whose_input_is_gone_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        headgate("fetch", "-", "-o", out, "-q", stdin=f"{origin.url}/1\n", check=0)
    (part,) = out.glob("part-*.parquet")
    part.write_bytes(b"")
    assert "can't be read a second time" in headgate("verify", out, "--repair", check=2).stderr
    assert part.exists()


def test_a_repair_of_rows_whose_bodies_are_files_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        fetch(origin.url, out, "--save-to", "{row}.bin", check=0)
        (part,) = out.glob("part-*.parquet")
        shorten(part)
        assert "bodies of lost rows were saved as files" in headgate("verify", out, "--repair", check=2).stderr
    assert part.exists()
    assert ROWS == len(list(out.glob("*.bin")))


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Returns a job whose newest commit adds a file that takes long to read: it is long, and nearly empty."""
    out = tmp_path / "out"
    with changing() as origin:
        fetch(origin.url, out, check=0)
    (part,) = out.glob("part-*.parquet")
    newest = max(commits.log_of(out).glob("*.json"))
    record = json.loads(newest.read_text())["record"]
    (listed,) = record["parts"]
    added = listed | {"bytes": ENDLESS_BYTES, "crc32": 7}
    record |= {"adds": [added], "parts": [added], "parts_sum": ENDLESS_SUM}
    record["totals"]["bytes"] = ENDLESS_BYTES
    commits.rewrite(newest, record)
    os.truncate(part, ENDLESS_BYTES)
    return out


@pytest.mark.parametrize("command", [["verify"], ["verify", "--repair"], ["clean"]])
def test_an_interrupt_ends_a_command_that_reads_results(command: list[str], endless: Path) -> None:
    before = sorted(endless.rglob("*"))
    (part,) = endless.glob("part-*.parquet")
    with started(*command, endless) as process:
        wait_for(lambda: str(part) in opened_by(process.pid))
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LONGEST_S)
    assert (130, "interrupted\n") == (process.returncode, stderr)
    assert before == sorted(endless.rglob("*"))


def test_an_interrupt_of_a_program_that_verifies_raises(endless: Path) -> None:
    (part,) = endless.glob("part-*.parquet")

    def interrupt() -> None:
        wait_for(lambda: str(part) in opened_by(os.getpid()))
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        package.Job.open(endless).verify()
    thread.join()


def opened_by(pid: int) -> list[str]:
    """Returns the files that a process has open."""
    found = []
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # it was closed meanwhile
            found.append(str(descriptor.readlink()))
    return found
