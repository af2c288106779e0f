"""The same command with an input that was touched: only its rows count."""

import json
import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headgate as package
from support.origin import changing
from support.results import table
from support.run import headgate

ROWS = 30


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(server: str, name: str, rows: int = ROWS) -> None:
    urls = [f"{server}/{row}" for row in range(rows)]
    if name.endswith(".parquet"):
        pq.write_table(pa.table({"url": urls}), name, row_group_size=10)
    else:
        Path(name).write_text("".join(f"{url}\n" for url in urls))


def touch(name: str) -> None:
    """Gives the file a new modification time."""
    time_s = 1_000_000_000 if Path(name).stat().st_mtime > 1_000_000_000 else 1
    os.utime(name, (time_s, time_s))


@pytest.mark.parametrize("name", ["urls.txt", "urls.parquet"])
def test_a_touched_or_copied_input_is_the_same(name: str, server: str) -> None:
    write(server, name)
    headgate("fetch", name, "-o", "out", check=0)
    touch(name)
    again = headgate("fetch", name, "-o", "out", check=0)
    assert "finished already: 30 rows done" in again.stderr
    shutil.copy(name, f"copy-of-{name}")
    again = headgate("fetch", f"copy-of-{name}", "-o", "out", check=0)
    assert "finished already: 30 rows done" in again.stderr


@pytest.mark.parametrize("name", ["urls.txt", "urls.parquet"])
def test_an_input_that_only_grew_is_refused_with_the_flag_that_allows_it(name: str, server: str) -> None:
    write(server, name)
    command = ("fetch", name, "-o", "out")
    headgate(*command, check=0)
    write(server, name, ROWS + 10)
    touch(name)
    refused = headgate(*command, check=2)
    assert (
        f"{name}: it has only grown: its first 30 rows are unchanged, and more follow; "
        "to do those, too, resume with --allow-append, or restore the file"
    ) == refused.errors()[0]
    assert json.loads(headgate("status", "out", "--as-json", check=0).stdout)["finished"]
    grown = headgate(*command, "--allow-append", check=0)
    assert "done: 10 rows in " in grown.stderr
    assert "in total 40 of 40 rows done, 0 failed" in grown.stderr
    assert [f"{server}/{row}" for row in range(ROWS + 10)] == sorted(
        table(Path("out"))["url"].to_pylist(), key=lambda url: int(url.rsplit("/", 1)[1])
    )
    assert "finished already: 40 rows done" in headgate(*command, check=0).stderr


def test_a_refusal_is_short_and_names_the_first_row_that_differs(server: str) -> None:
    write(server, "urls.txt")
    headgate("fetch", "urls.txt", "-o", "out", check=0)
    text = Path("urls.txt").read_text()
    Path("urls.txt").write_text(text.replace("/17\n", "/seventeen\n"))
    refused = headgate("fetch", "urls.txt", "-o", "out", "--allow-append", check=2)
    assert (
        "urls.txt: row 17 has changed since it was read: restore the file to resume, or start over with"
        " --if-exists overwrite"
    ) == refused.errors()[0]
    assert "requests/s" not in refused.stderr
    assert ROWS == table(Path("out")).num_rows


def test_failed_rows_of_an_input_that_grew_are_retried_without_a_flag() -> None:
    with changing() as origin:
        origin.statuses["/2"] = 503
        write(origin.url, "urls.txt", 5)
        headgate("fetch", "urls.txt", "-o", "out", check=3)
        write(origin.url, "urls.txt", 9)
        touch("urls.txt")
        origin.statuses, origin.requests[:] = {}, []
        headgate("retry", "out", check=0)
        assert ["/2"] == [path for _, path, _, _ in origin.requests]


def test_python_says_it_with_a_keyword(server: str) -> None:
    write(server, "urls.txt")
    package.fetch("urls.txt", "out")
    write(server, "urls.txt", ROWS + 1)
    touch("urls.txt")
    with pytest.raises(package.InputError, match="resume with allow_append=True, or restore"):
        package.fetch("urls.txt", "out")
    assert 1 == package.fetch("urls.txt", "out", allow_append=True).rows
