"""`headgate status` shows how far a job is, whether it runs or not."""

import json
import signal
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

from headgate import JobStatus
from support.origin import changing
from support.run import LONGEST_S, headgate, serving, started, wait_for, wait_for_requests

MAX_AGE_S: Final = 2.0


def test_a_finished_job_is_shown_for_people_and_for_programs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses |= {"/2": 503, "/4": 429}
        headgate("fetch", f"{origin.url}/[1-5]", "-o", out, check=3)
    done = headgate("status", out, check=3)
    assert "" == done.stderr
    lines = done.stdout.splitlines()
    assert "5 of 5 rows done (100 %); finished" == lines[0]
    assert {"  succeeded     3", "  failed        2", "    status:429  1", "    status:503  1"} <= set(lines)
    assert [["command", "started"], ["fetch"]] == [lines[-2].split()[:2], lines[-1].split()[:1]]

    text = headgate("status", out, "--as-json", check=3).stdout
    status = json.loads(text)
    assert {"status:429": 1, "status:503": 1} == status["errors"]
    assert (5, 5, 5, 3, 2, 2, True, True, False, None) == tuple(
        status[key]
        for key in (
            "rows",
            "done",
            "watermark",
            "succeeded",
            "failed",
            "parts",
            "finished",
            "resumable",
            "running",
            "pid",
        )
    )
    assert sum(part.stat().st_size for part in out.glob("*.parquet")) == status["bytes"]
    assert [("fetch", 5, True)] == [(run["command"], run["rows"], run["ended"]) for run in status["runs"]]
    assert text == JobStatus.from_json(text).to_json()


def test_a_running_job_is_shown_with_its_process(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with (
        serving() as server,
        started(
            "fetch", f"{server}/fault/hang-before-headers?[1-100]", "-o", out, "--shutdown-timeout", "0"
        ) as process,
    ):
        wait_for_requests(server, 10)
        wait_for(lambda: bool(status_of(out)["state"] == "running"))
        running = headgate("status", out, check=5).stdout.splitlines()[0]
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONGEST_S)
    assert f"0 of 100 rows done (0 %); running now (pid {process.pid})" == running
    stopped = headgate("status", out, check=6).stdout.splitlines()[0]
    assert "0 of 100 rows done (0 %); stopped: run the same command again to resume" == stopped


def test_where_there_is_no_job_it_says_so(tmp_path: Path) -> None:
    assert "no such directory" in headgate("status", tmp_path / "no", check=2).errors()[0]
    file = tmp_path / "urls.txt"
    file.write_text("")
    assert [f"{file} is a file, not the directory of a job"] == headgate("status", file, check=2).errors()
    file.unlink()
    done = headgate("status", tmp_path, "--as-json", check=2)
    assert "contains no job: name the directory that headgate fetch wrote to with -o" in done.errors()[0]
    assert ("", []) == (done.stdout, list(tmp_path.iterdir()))
    assert ["OUT is missing: name the directory of a job"] == headgate("status", check=2).errors()


def test_a_job_without_failed_rows_ends_with_0_and_a_damaged_one_with_1(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    headgate("status", out, check=0)
    (part,) = out.glob("part-*")
    part.unlink()
    for verb in ("status", "show"):
        done = headgate(verb, out, check=1)
        assert f"{part} is missing" in done.errors()[0]
        assert "" == done.stdout


def test_a_running_job_says_what_it_does_once_a_second_and_nothing_stays(tmp_path: Path) -> None:
    out, urls = tmp_path / "out", tmp_path / "urls.csv"
    with serving() as server, started_with_one_slow_row(server, urls, out) as process:
        wait_for(out.joinpath("_headgate").exists)
        wait_for(lambda: status_of(out)["rows"] == 100 and status_of(out)["progress"]["rows"] == 99)
        status = status_of(out)
        progress = status["progress"]
        assert ("running", "fetch", process.pid) == (status["state"], status["command"], status["pid"])
        assert ("running", 1, 100) == (progress["phase"], progress["in_flight"], progress["rows_known"])
        assert {"kind", "text"} == set(progress["bottleneck"])
        assert status["heartbeat_age_s"] <= MAX_AGE_S

        headgate("pause", out, check=0)
        wait_for(lambda: bool(status_of(out)["state"] == "paused"))

        process.send_signal(signal.SIGSTOP)
        wait_for(lambda: bool(status_of(out)["state"] == "hung"))
        assert "NOT RESPONDING: its last heartbeat is" in headgate("status", out, check=5).stdout.splitlines()[0]
        process.send_signal(signal.SIGCONT)
        wait_for(lambda: bool(status_of(out)["state"] == "paused"))

        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LONGEST_S)
    status = status_of(out)
    assert ("stopped", None, None) == (status["state"], status["progress"], status["heartbeat_at"])
    assert not [file.name for file in (out / "_headgate").iterdir() if "heartbeat" in file.name]


def test_a_job_that_has_just_begun_is_never_called_another_thing(tmp_path: Path) -> None:
    """It is polled from before its directory exists; what is there at first is an earlier job that is replaced."""
    out = tmp_path / "out"
    with serving() as server:
        headgate("fetch", f"{server}/[1-3]", "-o", out, check=0)
        fetch = ("fetch", "-", "-o", out, "--if-exists", "overwrite", "--yes", "--shutdown-timeout", "0")
        with started(*fetch, stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            wait_for(lambda: bool(status_of(out)["running"]))
            # Its input has sent no row yet, so that the results of the earlier job are still there.
            assert ("-", 0, "starting") == tuple(status_of(out)[key] for key in ("input", "done", "state"))
            process.stdin.write(f"{server}/fault/hang-before-headers\n")
            process.stdin.flush()
            wait_for(lambda: (status_of(out)["progress"] or {}).get("in_flight") == 1)
            assert (0, None) == tuple(status_of(out)[key] for key in ("done", "rows"))
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LONGEST_S)


def test_a_job_that_waits_says_for_what_and_is_not_called_hung(tmp_path: Path) -> None:
    out, piped = tmp_path / "out", tmp_path / "piped"
    with serving() as server:
        with started("fetch", f"{server}/[1-100]", "-o", out, "--rate", "1/m", "--shutdown-timeout", "0"):
            wait_for(lambda: out.joinpath("_headgate").exists() and bool(status_of(out)["state"] == "waiting"))
            progress = status_of(out)["progress"]
            assert ("waiting", "rate", 0) == tuple(progress[name] for name in ("phase", "throttled_by", "in_flight"))
        with started("fetch", "-", "-o", piped, "--shutdown-timeout", "0", stdin=subprocess.PIPE) as process:
            assert process.stdin is not None
            process.stdin.write(f"{server}/1\n")
            process.stdin.flush()
            wait_for(lambda: piped.joinpath("_headgate").exists() and bool(status_of(piped)["state"] == "waiting"))
            progress = status_of(piped)["progress"]
            assert (1, None, True) == (
                progress["rows"],
                progress["throttled_by"],
                progress["lanes_waiting"]["input"] > 0,
            )


def test_a_killed_job_remembers_how_many_rows_its_csv_has(tmp_path: Path) -> None:
    out, urls = tmp_path / "out", tmp_path / "urls.csv"
    with serving() as server, started_with_one_slow_row(server, urls, out) as process:
        wait_for(out.joinpath("_headgate").exists)
        wait_for(lambda: bool(status_of(out)["done"] == 99))
        process.kill()
        process.communicate(timeout=LONGEST_S)
    status = status_of(out)
    assert ("stopped", False, 99, 100) == tuple(status[key] for key in ("state", "running", "done", "rows"))


def test_a_disk_that_refuses_heartbeats_is_no_reason_to_call_a_job_stopped(tmp_path: Path) -> None:
    out, urls = tmp_path / "out", tmp_path / "urls.csv"
    heartbeat = out / "_headgate" / "heartbeat.json"
    with serving() as server, started_with_one_slow_row(server, urls, out) as process:
        wait_for(heartbeat.exists)
        heartbeat.unlink()
        heartbeat.mkdir()
        status = status_of(out)
        assert ("running", True, process.pid, None) == tuple(
            status[key] for key in ("state", "running", "pid", "heartbeat_at")
        )
        assert f"running now (pid {process.pid})" in headgate("status", out, check=5).stdout.splitlines()[0]


def status_of(out: Path) -> dict[str, Any]:
    """The status of a job that has begun, as a program reads it."""
    done = headgate("status", out, "--as-json")
    assert "" == done.stderr, done.stderr
    status: dict[str, Any] = json.loads(done.stdout)
    return status


def started_with_one_slow_row(server: str, urls: Path, out: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """Starts a job with a CSV of 100 rows, one of which never ends."""
    rows = [f"{server}/{number}" for number in range(99)]
    urls.write_text("\n".join(["url", f"{server}/fault/hang-before-headers", *rows]) + "\n")
    return started("fetch", urls, "-o", out, "--timeout", "600", "--shutdown-timeout", "0")
