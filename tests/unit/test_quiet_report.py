"""With `--quiet`, a job prints one line if rows failed or it stopped early, and nothing otherwise."""

from headgate import Summary
from headgate.jobs._report import quiet_report
from support.figures import RESUMED, summary_json

JOB = RESUMED | {"rows": 50_000, "done": 50_000, "failed": 1_203, "errors": {"timeout": 3, "status:503": 1_200}}


def line(**changes: object) -> str | None:
    return quiet_report(Summary.from_json(summary_json(**changes)))


def test_the_line_has_the_failed_rows_of_the_job_with_their_causes_and_the_next_command() -> None:
    assert "1,203 of 50,000 rows failed (status:503 1,200, timeout 3): headgate retry results" == line(job=JOB)


def test_without_failed_rows_there_is_no_line() -> None:
    assert line(failed=0, errors={}) is None
    assert line(job=JOB | {"failed": 0, "errors": {}}) is None


def test_the_line_has_the_three_most_frequent_causes() -> None:
    errors = {"dns": 1, "connect": 2, "timeout": 2, "status:503": 1_198}
    expected = "1,203 of 50,000 rows failed (status:503 1,198, connect 2, timeout 2, ...): headgate retry results"
    assert expected == line(job=JOB | {"errors": errors})


def test_where_a_retry_is_not_possible_none_is_recommended() -> None:
    counts = "15 of 100,000 rows failed (timeout 7, status:503 5, connection_closed 3)"
    assert counts == line(output="-")
    assert "1,203 of 50,000 rows failed (status:503 1,200, timeout 3)" == line(job=JOB | {"resumable": False})
    invalid = {"failed": 2, "errors": {"invalid_request": 2}}
    assert "2 of 50,000 rows failed (invalid_request 2)" == line(job=JOB | invalid)


def test_a_path_is_quoted_for_a_shell_and_cannot_steer_the_terminal() -> None:
    assert (line(job=JOB, output="my results") or "").endswith(": headgate retry 'my results'")
    assert "\x1b" not in (line(job=JOB, output="\x1b]0;owned") or "")


def test_a_job_that_was_stopped_says_so_and_how_it_continues() -> None:
    unfinished = JOB | {"done": 20_000, "finished": False}
    stopped = line(interrupted=True, job=unfinished)
    assert "stopped early: 20,000 of 50,000 rows done, 1,203 failed; run the same command again to resume" == stopped
    retry = quiet_report(Summary.from_json(summary_json(interrupted=True, job=JOB)), of_a_retry=True)
    assert "stopped early: 50,000 of 50,000 rows done, 1,203 failed; run the same command again to resume" == retry
