"""`--max-rows` tries a job with its first rows. The same job continues with more rows, and requests nothing twice."""

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as package
from support import commits, ledger
from support.origin import changing
from support.results import rows
from support.run import LONGEST_S, headgate, serving, started, stats, wait_for

ROWS: Final = 3_000
"""More than a batch, so that a trial ends within one and after one."""


def urls(server: str) -> list[str]:
    return [f"{server}/{row}" for row in range(ROWS)]


def pattern(server: str, _directory: Path) -> list[str | Path]:
    return [f"{server}/[0-{ROWS - 1}]"]


def text(server: str, directory: Path) -> list[str | Path]:
    path = directory / "urls.txt"
    path.write_text("".join(f"{url}\n" for url in urls(server)))
    return [path]


def csv(server: str, directory: Path) -> list[str | Path]:
    path = directory / "urls.csv"
    path.write_text("url,id\n" + "".join(f"{url},{row}\n" for row, url in enumerate(urls(server))))
    return [path, "--keep", "id"]


def ndjson_gz(server: str, directory: Path) -> list[str | Path]:
    path = directory / "urls.ndjson.gz"
    path.write_bytes(gzip.compress("".join(json.dumps({"url": url}) + "\n" for url in urls(server)).encode()))
    return [path]


def parquet(server: str, directory: Path) -> list[str | Path]:
    path = directory / "urls.parquet"
    pq.write_table(pa.table({"url": urls(server)}), path, row_group_size=700)
    return [path]


def several(server: str, directory: Path) -> list[str | Path]:
    (inputs := directory / "inputs").mkdir()
    for first in range(0, ROWS, 1000):
        (inputs / f"{first:04}.txt").write_text("".join(f"{url}\n" for url in urls(server)[first : first + 1000]))
    return [inputs]


FORMS: Final = [pattern, text, csv, ndjson_gz, parquet, several]


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_continues_with_more_rows_and_sends_nothing_twice(
    form: Callable[[str, Path], list[str | Path]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with serving() as server:
        fetch = ["fetch", *form(server, tmp_path), "-o", out]
        for max_rows, done in [(10, 10), (10, 10), (7, 10), (1100, 1100), (1099, 1100), (2048, 2048), (2048, 2048)]:
            ended = headgate(*fetch, "--max-rows", str(max_rows), check=0)
            assert done == stats(server)["requests"], max_rows
            status = package.Job.open(out).status()
            assert (done, done, done, True) == (status.max_rows, status.done, status.watermark, status.finished)
            assert "with a larger --max-rows, or without" in ended.stderr
            assert list(range(done)) == [row["row"] for row in rows(out)]
            headgate("status", out, check=0)
        ended = headgate(*fetch, check=0)
        assert "this was a trial" not in ended.stderr
        for flags in ([], ["--max-rows", "10"], ["--max-rows", "9999"]):
            headgate(*fetch, *flags, check=0)
            assert ROWS == stats(server)["requests"]
    status = package.Job.open(out).status()
    assert (None, ROWS, ROWS, True) == (status.max_rows, status.rows, status.done, status.finished)
    assert [f"{server}/{row}" for row in range(ROWS)] == [row["url"] for row in rows(out)]


@pytest.mark.parametrize("form", [pattern, text, parquet])
def test_a_trial_of_all_rows_is_the_whole_job(
    form: Callable[[str, Path], list[str | Path]], server: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    headgate("fetch", *form(server, tmp_path), "-o", out, "--max-rows", str(ROWS + 1), check=0)
    status = package.Job.open(out).status()
    assert (None, ROWS, True) == (status.max_rows, status.rows, status.finished)


def test_a_trial_and_its_status_say_how_it_continues(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    fetch = ("fetch", f"{server}/[1-100]", "-o", out, "--max-rows", "10")
    how = "this was a trial of 10 rows: to continue it, run the same command with a larger --max-rows, or without"
    assert how in headgate(*fetch, check=0).stderr.splitlines()
    again = headgate(*fetch, check=0).stderr.splitlines()
    over = "continue with a larger --max-rows, or without, or start over with --if-exists overwrite"
    assert f"finished already: 10 rows done: {over}" == again[0]
    status = headgate("status", out, check=0).stdout.splitlines()
    assert "10 of 100 rows done (10 %); the trial is finished" == status[0]
    (trial,) = (line for line in status if line.split()[:1] == ["trial"])
    assert trial.endswith("of 10 rows: the same command continues it with a larger --max-rows, or without")
    plan = json.loads(headgate("plan", *fetch[1:-1], "30", "--as-json", check=0).stdout)
    assert ("resumed", 30, 20) == (plan["directory"], plan["rows"], plan["left"])
    assert "finished" == json.loads(headgate("plan", *fetch[1:], "--as-json", check=0).stdout)["directory"]


def test_a_retry_of_a_trial_stays_within_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses = {f"/{row}": 503 for row in (2, 4, 17)}
        fetch = ("fetch", f"{origin.url}/[1-20]", "-o", out, "--retries", "0")
        headgate(*fetch, "--max-rows", "10", check=3)
        headgate("retry", out, "--retries", "0", check=3)
        origin.statuses.clear()
        headgate("retry", out, check=0)
        retried = sorted(path for _, path, _, _ in origin.requests[10:])
        assert ["/2", "/2", "/4", "/4"] == retried
        status = package.Job.open(out).status()
        assert (10, 10, 0, True) == (status.max_rows, status.done, status.failed, status.finished)
        headgate(*fetch, check=0)
        assert 24 == len(origin.requests)
    assert list(range(20)) == [row["row"] for row in rows(out)]


@pytest.mark.parametrize("form", [text, csv, parquet])
def test_an_input_that_was_changed_after_a_trial_is_refused(
    form: Callable[[str, Path], list[str | Path]], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with serving() as server:
        (path, *flags) = form(server, tmp_path)
        fetch = ["fetch", path, *flags, "-o", out]
        headgate(*fetch, "--max-rows", "10", check=0)
        form(f"{server}/other", tmp_path)
        for more in (["--max-rows", "10"], ["--max-rows", "100"], []):
            assert "row" in headgate(*fetch, *more, check=2).errors()[0]
        assert 10 == stats(server)["requests"]
        # The same content, written anew.
        form(server, tmp_path)
        headgate(*fetch, "--max-rows", "10", check=0)
        headgate(*fetch, "--max-rows", "5", check=0)
        assert 10 == stats(server)["requests"]
        headgate(*fetch, check=0)
        assert ROWS == stats(server)["requests"]


def is_beyond(rows_done: int, out: Path) -> bool:
    return commits.done(out) > rows_done


@pytest.mark.parametrize("form", [pattern, text, parquet])
def test_killed_in_a_trial_and_in_its_continuation_a_job_resumes(
    form: Callable[[str, Path], list[str | Path]], tmp_path: Path
) -> None:
    out, done = tmp_path / "out", 0
    with changing() as origin:
        fetch = ["fetch", *form(origin.url, tmp_path), "-o", out, "-c", "20", "--commit-interval", "0.05"]
        for more, last in ((["--max-rows", "1500"], 1499), ([], ROWS - 1)):
            origin.held = {f"/{last}"}
            origin.released.clear()
            with started(*fetch, *more) as process:
                wait_for(partial(is_beyond, done, out))
                process.kill()
                process.communicate(timeout=LONGEST_S)
            status = package.Job.open(out).status()
            assert done < status.done <= last
            assert not status.finished
            assert [] == ledger.twice(out)
            origin.held = set()
            origin.released.set()
            headgate(*fetch, *more, check=0)
            done = last + 1
            assert list(range(done)) == [row["row"] for row in rows(out)]
    assert ROWS == package.Job.open(out).status().done


def test_a_job_that_is_ahead_of_a_trial_sends_nothing_for_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.held = {"/3"}
        fetch: list[str | Path] = ["fetch", f"{origin.url}/[1-2000]", "-o", out, "-c", "5", "--shutdown-timeout", "0"]
        with started(*fetch) as process:
            while len(origin.requests) < 100:
                assert process.poll() is None
            process.terminate()
            process.communicate(timeout=LONGEST_S)
        # What was in flight has come, and /3 is held.
        wait_for(lambda: origin.connections <= 1)
        status, sent = package.Job.open(out).status(), len(origin.requests)
        assert 2 == status.watermark < status.done < 2000
        headgate(*fetch, "--max-rows", "2", check=0)
        assert sent == len(origin.requests)
        assert not package.Job.open(out).status().finished
        origin.held.clear()
        origin.released.set()
        headgate(*fetch, "--max-rows", "3", check=0)
        assert "/3" == origin.requests[-1][1]
        assert sent + 1 == len(origin.requests)
        headgate(*fetch, check=0)
    assert list(range(2000)) == [row["row"] for row in rows(out)]
