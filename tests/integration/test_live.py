"""Options that are set while a job runs: those that it takes, those that it refuses, and how long they hold."""

import json
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import headgate as package
from support.origin import Origin, changing
from support.run import LONGEST_S, headgate, started, wait_for

TAKEN = "set: the running job has applied it\n"
NOT_RUNNING = "set: no job is running here, so it applies from the next run\n"
PAUSED = "paused: the running job starts no more requests\n"
UNPAUSED = "unpaused: the running job starts requests again\n"


@contextmanager
def running(out: Path, *flags: str) -> Iterator[Origin]:
    """Runs a job of five rows, one of which is in flight until the block is left; then the job ends."""
    with changing() as origin:
        origin.held = {"/5"}
        with started("fetch", f"{origin.url}/[1-5]", "-o", out, "-q", *flags) as job:
            wait_for(lambda: len(origin.requests) == 5)
            yield origin
            origin.released.set()
            assert job.wait(LONGEST_S) == 0


def stopped(out: Path, origin: Origin) -> None:
    """Begins a job of five rows and stops it while one is in flight."""
    origin.held = {"/5"}
    with started("fetch", f"{origin.url}/[1-5]", "-o", out, "-q", "--shutdown-timeout", "0") as job:
        wait_for(lambda: len(origin.requests) == 5)
        job.send_signal(signal.SIGINT)
        assert job.wait(LONGEST_S) == 130


def status(out: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(headgate("status", out, "--as-json").stdout)
    return figures


def files_of_changes(out: Path) -> list[str]:
    return sorted(path.name for path in (out / "_headgate").glob("control*"))


def test_a_running_job_takes_what_is_set_and_forgets_it_when_it_has_ended(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running(out):
        assert headgate("set", out, "--rate", "50/s", "-c", "300", check=0).stdout == TAKEN
        assert headgate("set", out, "--rate", "none", "--total-timeout", "90", check=0).stdout == TAKEN
        assert headgate("pause", out, check=0).stdout == PAUSED
        seen = status(out)
        assert {"concurrency": "300", "rate": "none", "total_timeout": "90"} == seen["set"]
        assert seen["paused"]
        printed = headgate("status", out, check=5).stdout
        assert "; paused (pid " in printed
        assert re.search(r"^  set +concurrency=300, rate=none, total_timeout=90$", printed, re.MULTILINE), printed
        assert headgate("unpause", out, check=0).stdout == UNPAUSED
        assert not status(out)["paused"]
        assert ["control-reply.json", "control.json"] == files_of_changes(out)
    assert [] == files_of_changes(out)
    assert ({}, 5, True) == tuple(status(out)[key] for key in ("set", "done", "finished"))
    assert headgate("set", out, "--rate", "1/s", check=2).errors() == [
        f"the job in {out} is finished: there is nothing to change"
    ]


def test_an_option_that_a_running_job_cannot_apply_is_an_error_and_changes_nothing(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with running(out, "--host-by", "origin"):
        headgate("set", out, "-c", "300", check=0)
        (error,) = headgate("set", out, "-c", "100000000", check=2).errors()
        assert error.startswith("--concurrency 100000000: this process may have ")
        (error,) = headgate("set", out, "--rate-per-host", "a.example=5/s", check=2).errors()
        assert error.startswith("--rate-per-host 'a.example' is not an origin, such as https://api.example.com")
        (error,) = headgate("set", out, "--cost-rate", "5/s", check=2).errors()
        assert error == "--cost-rate limits nothing: the job was started without costs of its rows"
        assert {"concurrency": "300"} == status(out)["set"]
        assert headgate("set", out, "--rate-per-host", "https://a.example=5/s", check=0).stdout == TAKEN


def test_a_set_option_holds_for_later_runs_that_do_not_name_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        stopped(out, origin)
        assert headgate("set", out, "--rate", "50/s", "--retries", "7", check=0).stdout == NOT_RUNNING
        assert {"rate": "50/s", "retries": "7"} == status(out)["set"]
        with started("fetch", f"{origin.url}/[1-5]", "-o", out, "--rate", "70/s", "--shutdown-timeout", "0") as job:
            wait_for(lambda: len(origin.requests) == 6)
            assert {"retries": "7"} == status(out)["set"]
            job.send_signal(signal.SIGINT)
            _, printed = job.communicate(timeout=LONGEST_S)
        assert "note: set while the job ran, and still in force: --retries 7\n" in printed
        origin.released.set()
        headgate("fetch", f"{origin.url}/[1-5]", "-o", out, check=0)
    assert [] == files_of_changes(out)


def test_a_job_that_starts_over_forgets_what_was_set(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        stopped(out, origin)
        headgate("set", out, "--rate", "50/s", check=0)
        headgate("pause", out, check=0)
        origin.released.set()
        printed = headgate("fetch", f"{origin.url}/[1-5]", "-o", out, "--if-exists", "overwrite", check=0).stderr
    assert "still in force" not in printed
    assert "paused" not in printed
    assert 5 == status(out)["done"]


def test_a_damaged_file_of_changes_is_a_note_and_no_end(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        stopped(out, origin)
        headgate("set", out, "--rate", "50/s", check=0)
        path = out / "_headgate" / "control.json"
        path.write_bytes(path.read_bytes().replace(b"50/s", b"51/s"))
        damage = f"{path} is damaged: the options that were set while the job ran are lost; set them again"
        assert damage == status(out)["note"]
        origin.released.set()
        printed = headgate("fetch", f"{origin.url}/[1-5]", "-o", out, check=0).stderr
        assert f"note: {damage}\n" in printed
    assert 5 == status(out)["done"]


@pytest.mark.parametrize(
    ("expected", "arguments"),
    [
        (["OUT is missing: name the directory of a job"], ["set", "--rate", "5/s"]),
        (["nothing is to be set: name an option, such as --rate 50/s"], ["set", "OUT"]),
        (["--concurrency must be a whole number, not 'none'"], ["set", "OUT", "-c", "none"]),
        (
            ["unknown flag --retry-on: it belongs to headgate fetch; a running job can't change it"],
            ["set", "OUT", "--retry-on", "429"],
        ),
        (["OUT: no such directory"], ["set", "OUT", "--rate", "5/s"]),
        (["OUT is missing: name the directory of a job"], ["pause"]),
        (["OUT: no such directory"], ["unpause", "OUT"]),
    ],
)
def test_each_mistake_is_named(
    expected: list[str], arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = [error.partition(": did you mean")[0] for error in headgate(*arguments, check=2).errors()]
    assert expected == found


def test_a_run_of_this_process_is_changed_at_once_and_its_job_remembers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.held = {"/5"}
        with package.start(f"{origin.url}/[1-5]", out) as run:
            run.set(rate_per_host={"a.example": "5/s", "*": "9/s"}, burst=3)
            run.set(concurrency=300)
            assert 300 == run.statistics().concurrency
            run.set(concurrency=256)
            run.pause()
            job = package.Job.open(out)
            assert ({"rate_per_host": "a.example=5/s,*=9/s", "burst": "3", "concurrency": "256"}, True) == (
                job.status().set,
                job.status().paused,
            )
            with pytest.raises(package.UsageError, match=r"^concurrency=100000000: this process may have "):
                run.set(concurrency=100_000_000)
            with pytest.raises(package.UsageError, match=r"^concurrency=100000000: this process may have "):
                job.set(concurrency=100_000_000)
            assert job.set(rate_per_host=None)
            run.unpause()
            assert ({"rate_per_host": "none", "burst": "3", "concurrency": "256"}, False) == (
                job.status().set,
                job.status().paused,
            )
            origin.released.set()
        with pytest.raises(package.UsageError, match=r"^the run has ended: there is nothing to change$"):
            run.set(burst=3)
    assert {} == job.status().set


def test_a_paused_job_starts_nothing_until_it_is_unpaused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.held = {"/1"}
        with package.start(f"{origin.url}/[1-3]", out, concurrency=1, threads=1) as run:
            wait_for(lambda: len(origin.requests) == 1)
            assert package.Job.open(out).pause()
            origin.released.set()
            wait_for(lambda: run.statistics().rows == 1)
            wait_for(lambda: run.statistics().bottleneck.kind == "paused")
            assert (1, 0) == (len(origin.requests), run.statistics().in_flight)
            run.unpause()
        assert run.summary is not None
        assert 3 == run.summary.rows
        assert run.summary.throttled_s["paused"] > 0
