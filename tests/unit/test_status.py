import dataclasses
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from headgate import JobStatus
from headgate.jobs._status import report
from support.figures import SNAPSHOT, STATUS, status_json


def lines(**changes: Any) -> list[str]:
    return report(JobStatus.from_json(status_json(**changes))).splitlines()


def test_times_are_in_utc_and_nothing_is_lost_on_the_way_to_json() -> None:
    status = JobStatus.from_json(status_json())
    assert datetime(2026, 11, 20, 20, 19, 33, 69_189, tzinfo=UTC) == status.started_at
    assert datetime(2026, 11, 20, 20, 21, 7, 161_937, tzinfo=UTC) == status.runs[0].committed_at
    assert STATUS == json.loads(status.to_json())
    assert list(STATUS) == list(json.loads(status.to_json())) == [field.name for field in dataclasses.fields(status)]


def test_a_job_without_a_commit_has_no_time_of_one() -> None:
    status = JobStatus.from_json(status_json(committed_at=None, runs=[], run_count=0))
    assert (None, ()) == (status.committed_at, status.runs)
    assert "  started              2026-11-20 20:19:33 UTC" == report(status).splitlines()[-1]


def test_the_report_has_all_that_is_known() -> None:
    assert [
        "160,000 of 200,000 rows done (80 %); stopped: run the same command again to resume",
        "  input                urls.txt",
        "  succeeded            159,940",
        "  failed               60",
        "    timeout            52",
        "    status:503         5",
        "    connection_closed  3",
        "  watermark            159,000: all rows before it are done",
        "  results              4 files, 5.0 MiB, parquet",
        "  started              2026-11-20 20:19:33 UTC",
        "",
        "command  started                  last commit                 rows  end",
        "fetch    2026-11-20 20:19:33 UTC  2026-11-20 20:21:07 UTC   60,000  did not end",
        "fetch    2026-11-20 20:58:00 UTC  2026-11-20 21:00:05 UTC  100,000  ended",
    ] == lines()


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("160,000 of 200,000 rows done (80 %); running now (pid 7)", {"running": True, "state": "running", "pid": 7}),
        ("160,000 of 200,000 rows done (80 %); paused", {"running": True, "state": "paused"}),
        ("160,000 of 200,000 rows done (80 %); waiting", {"running": True, "state": "waiting"}),
        (
            (
                "160,000 of 200,000 rows done (80 %); NOT RESPONDING: its last heartbeat is 40.0 s old; "
                "the process is stopped, or its machine or disk hangs (pid 7)"
            ),
            {"running": True, "state": "hung", "pid": 7, "heartbeat_age_s": 40.0, "progress": SNAPSHOT},
        ),
        (
            "160,000 of 200,000 rows done (80 %); NOT RESPONDING: its disk has not responded for 31.0 s",
            {"running": True, "state": "hung", "heartbeat_age_s": 1.0, "progress": SNAPSHOT | {"writing_s": 31.0}},
        ),
        (
            "37,412 of 200,000 rows done (19 %); running now",
            {"running": True, "state": "running", "done": 0, "command": "fetch", "progress": SNAPSHOT},
        ),
        ("200,000 of 200,000 rows done (100 %); finished", {"done": 200_000, "finished": True}),
        (
            (
                "200,000 of 200,000 rows done (100 %); "
                "stopped before the files of results were merged: the same command does that"
            ),
            {"done": 200_000},
        ),
        (
            "200,000 of 200,000 rows done (100 %); stopped before the files of results were merged",
            {"done": 200_000, "resumable": False},
        ),
        ("0 of 0 rows done (100 %); finished", {"done": 0, "rows": 0, "finished": True}),
        (
            (
                "160,000 rows done; the total is not known yet; "
                "stopped: it can't be resumed, because its input can't be read again"
            ),
            {"rows": None, "resumable": False},
        ),
    ],
)
def test_the_first_line_says_how_far_it_is_and_whether_it_goes_on(expected: str, changes: dict[str, Any]) -> None:
    assert expected == lines(**changes)[0]


def test_files_that_a_kill_left_unmoved_are_counted() -> None:
    expected = "  not in place         1 file: other readers don't see it before the job is run again"
    assert expected in lines(parts_to_place=1)
    assert expected not in lines(parts_to_place=1, running=True, state="running")


def test_the_status_has_the_note_about_the_directory() -> None:
    assert "  note                 a commit is damaged" in lines(note="a commit is damaged")


def test_a_run_that_has_not_ended_runs_or_was_killed() -> None:
    runs = [run | {"ended": False} for run in STATUS["runs"]]
    assert ["did not end", "running"] == [
        line.rpartition("  ")[2] for line in lines(running=True, state="running", runs=runs)[-2:]
    ]


def test_runs_are_not_a_table_where_that_is_wider_than_the_terminal() -> None:
    narrow = report(JobStatus.from_json(status_json()), 60).splitlines()
    table = lines()
    assert table == report(JobStatus.from_json(status_json()), max(map(len, table))).splitlines()
    expected = ["  started      2026-11-20 20:19:33 UTC", "  last commit  2026-11-20 20:21:07 UTC"]
    start = narrow.index("") + 2
    assert ("fetch: ", expected) == (narrow[start - 1][:7], narrow[start : start + 2])
    assert max(map(len, narrow[start:])) <= 60


def test_runs_that_are_forgotten_are_counted() -> None:
    assert "38 runs before these" in lines(run_count=40)


def test_an_input_cannot_steer_the_terminal() -> None:
    assert r"  input                a\x1b[2J.txt" in lines(input="a\x1b[2J.txt")
