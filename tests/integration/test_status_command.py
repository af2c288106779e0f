"""`headgate status` shows how far a job is, whether it runs or not."""

import json
import signal
from pathlib import Path

from headgate import JobStatus
from support.origin import changing
from support.run import LONGEST_S, headgate, serving, started, wait_for_requests


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
