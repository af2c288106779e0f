"""A job that can't start because of its output exits with 1 if this machine is the cause, and otherwise with 2."""

from pathlib import Path

import pytest

from support.disks import frozen, small_disk
from support.run import headgate

NOWHERE = "http://127.0.0.1:1/[1-3]"
"""Requests that fail at once, so that a job has failed rows."""


def job(out: Path) -> None:
    headgate("fetch", NOWHERE, "-o", out, "--retries", "0", check=3)


def test_a_disk_that_is_full_at_the_start_is_an_error_of_the_machine(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        job(disk.path / "old")
        filler = disk.path / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(bytes(2 * 1024**2))
        fetch = ("fetch", NOWHERE, "--if-exists", "overwrite", "-y", "--retries", "0", "-o")
        for out in (disk.path / "old", disk.path / "new"):
            refused = headgate(*fetch, out, check=1).errors()[0]
            assert "--min-free" in refused or "no space left on device" in refused
            full = headgate(*fetch, out, "--min-free", "0", check=1)
            assert "no space left on device" in full.errors()[0]
        filler.unlink()
        assert {"old", "new"} >= {path.name for path in disk.path.iterdir()}, "the probe leaves no file"


def test_a_read_only_disk_is_an_error_of_the_machine_and_a_missing_job_on_it_is_not(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "8m") as disk:
        job(disk.path / "old")
        disk.remount("ro")
        for command in (("fetch", NOWHERE, "-o", disk.path / "new"), ("retry", disk.path / "old")):
            assert "read-only file system" in headgate(*command, check=1).errors()[0]
        assert "no such directory" in headgate("retry", disk.path / "new", check=2).errors()[0]


def test_a_directory_without_permission_is_an_error_of_the_machine(tmp_path: Path) -> None:
    with frozen(tmp_path):
        done = headgate("fetch", NOWHERE, "-o", tmp_path / "out", check=1)
    assert [f"can't create the directory {tmp_path / 'out'}: operation not permitted"] == done.errors()


@pytest.mark.parametrize("verb", [("fetch", NOWHERE, "--retries", "0", "-o"), ("retry",)], ids=["fetch", "retry"])
def test_a_damaged_job_is_an_error_of_the_machine(verb: tuple[str, ...], tmp_path: Path) -> None:
    job(tmp_path / "out")
    (part,) = (tmp_path / "out").glob("failed-*")
    part.unlink()
    assert f"{part} is missing" in headgate(*verb, tmp_path / "out", check=1).errors()[0]


def test_an_output_that_is_something_else_is_a_mistake_on_the_command_line(tmp_path: Path) -> None:
    file, foreign, other = tmp_path / "file", tmp_path / "foreign", tmp_path / "other"
    file.touch()
    foreign.mkdir()
    (foreign / "thesis.tex").touch()
    job(other)
    for expected, out in (
        ("is not a directory", file),
        ("not a directory", file / "out"),
        ("is not empty and was not made by headgate", foreign),
    ):
        assert expected in headgate("fetch", NOWHERE, "-o", out, check=2).errors()[0]
    again = headgate("fetch", f"{NOWHERE}?other", "-o", other, check=2)
    assert "contains a job that can't be resumed with these options" in again.errors()[0]
    assert ["thesis.tex"] == [path.name for path in foreign.iterdir()]
