from pathlib import Path
from typing import Any

import pytest

from headgate import Summary
from headgate.jobs._as_flag import as_flag
from headgate.jobs._report import greeting, report, retry_report
from support.figures import RESUMED, summary_json


def lines(**changes: object) -> list[str]:
    return report(Summary.from_json(summary_json(**changes)), as_flag).splitlines()


def test_the_report_has_the_outcomes_and_the_bottleneck() -> None:
    assert lines() == [
        "done: 100,000 rows in 3.3 s",
        "  succeeded            99,985  (2xx: 99,955, 4xx: 30)",
        "  failed               15",
        "    timeout            7  row 12: http://127.0.0.1:8080/12: no response came in time; see --timeout",
        "    status:503         5  row 31: http://127.0.0.1:8080/31: the server responded with 503",
        "    connection_closed  3  row 400: http://127.0.0.1:8080/400: closed in the middle of the body",
        "  requests/s           30,211",
        "  latency              p50 8.1 ms, p90 12 ms, p99 21 ms, max 1.50 s",
        "  received             1.2 MiB",
        "  memory               64.0 MiB at peak",
        "  CPU                  5.4 s, 54.2 s per million requests",
        "bottleneck: this machine. Its workers are 98 % busy",
        "note: only 900 of 1,000 fit within the limit of open files",
        "results are in results: look at them with `headgate show results`",
    ]


def test_the_report_counts_retries_pauses_and_throttled_time() -> None:
    shown = lines(
        retries={"timeout": 3, "status:503": 1_200},
        not_retried=7,
        resent=1_004,
        headers_skipped=12,
        stalled_s=6.04,
        pauses={f"{name}.example": 9 - index for index, name in enumerate("abcdef")},
        throttled_s={"backoff": 0.5, "host_rate": 62.0},
    )
    assert shown[6:13] == [
        "  retried              1,203  (status:503: 1,200, timeout: 3)",
        (
            "  not retried          7  servers may have acted on them: --idempotency-key lets servers recognise a retry"
            ", --retry-non-idempotent retries anyway"
        ),
        "  resent               1,004  their connections had just been closed",
        "  headers skipped      12  they break the rules for headers",
        "  pauses               39  (a.example: 9, b.example: 8, c.example: 7, d.example: 6, e.example: 5, ...)",
        "  stalled              6.0 s  the process did not run, which counts against no host",
        "  throttled            62.0 s by rate limit per host, 0.5 s by retry backoff",
    ]


NO_ROWS: dict[str, Any] = {
    "rows": 0,
    "succeeded": 0,
    "failed": 0,
    "statuses": {},
    "errors": {},
    "error_examples": {},
    "notes": [],
    "requests_per_s": 0.0,
    "elapsed_s": 0.0,
    "latency_us": {"p50": 0, "p90": 0, "p99": 0, "max": 0},
    "cpu_s": 0.01,
    "received_bytes": 0,
}


def test_a_job_of_no_rows_has_no_latency_and_no_cost_of_each() -> None:
    assert lines(**NO_ROWS) == [
        "done: 0 rows in 0.0 s",
        "  succeeded   0",
        "  failed      0",
        "  requests/s  0",
        "  received    0 B",
        "  memory      64.0 MiB at peak",
        "  CPU         0.0 s",
        "there were no rows to fetch",
    ]
    assert lines(**NO_ROWS, interrupted=True)[-1] == "no row has ended, and nothing was written"


def test_a_job_that_did_not_reach_its_end_says_so() -> None:
    assert lines(interrupted=True)[0] == "stopped early: 100,000 of 200,000 rows in 3.3 s"
    assert lines(interrupted=True, rows_known=None)[0] == "stopped early: 100,000 rows in 3.3 s"
    assert lines(failure={"kind": "input", "message": "cut short"})[0].startswith("stopped early: 100,000 of ")


def test_the_report_of_a_resumed_run_has_its_own_figures_and_those_of_the_job() -> None:
    resumed = lines(job=RESUMED | {"done": 200_000, "rows_before": 100_000, "finished": True})
    assert "done: 100,000 rows in 3.3 s" == resumed[0]
    assert [
        "bottleneck: this machine. Its workers are 98 % busy",
        "in total 200,000 of 200,000 rows done, 60 failed",
        "note: only 900 of 1,000 fit within the limit of open files",
        "results are in results: look at them with `headgate show results`",
        "retry failed rows with `headgate retry results`",
    ] == resumed[-5:]
    assert "in total 160,000 rows done, 60 failed" in lines(job=RESUMED | {"rows": None})
    assert [] == [line for line in lines(job=RESUMED | {"rows_before": 0}) if line.startswith("in all")]


def test_a_run_that_stopped_itself_says_how_to_resume() -> None:
    stopped = lines(interrupted=True, stopped_by="all of them failed", job=RESUMED)
    assert "stopped early: 100,000 rows in 3.3 s" == stopped[0]
    assert stopped[-1] == (
        "when the cause is gone, run the same command again for the rest, and `headgate retry results` for the failed"
        " rows"
    )


def place_job(output: Path) -> None:
    """Creates what shows that a directory contains a job."""
    (output / "_headgate").mkdir()
    (output / "_headgate" / "job.json").touch()


def test_a_run_that_was_stopped_says_how_to_resume(tmp_path: Path) -> None:
    stopped = lines(interrupted=True, job=RESUMED)
    assert "stopped early: 100,000 rows in 3.3 s" == stopped[0]
    assert "in total 160,000 of 200,000 rows done, 60 failed" in stopped
    assert "run the same command again to resume" == stopped[-1]
    first = lines(interrupted=True, job=RESUMED | {"rows_before": 0})
    assert ("stopped early: 100,000 of 200,000 rows in 3.3 s", "run the same command again to resume") == (
        first[0],
        first[-1],
    )
    full = {"kind": "output", "message": "disk full"}
    place_job(tmp_path)
    assert [
        f"what was committed before the failure is safe in {tmp_path}: 160,000 of 200,000 rows",
        "when the cause of the failure is gone, run the same command again to resume",
    ] == lines(failure=full, job=RESUMED, output=str(tmp_path))[-2:]


@pytest.mark.parametrize("job", [None, RESUMED | {"resumable": False}, RESUMED | {"finished": True}])
def test_the_report_does_not_offer_to_resume_what_cannot_be_resumed(job: dict[str, Any] | None) -> None:
    assert [] == [line for line in lines(interrupted=True, job=job) if "again to resume" in line]


def test_an_input_that_broke_off_is_another_once_it_is_mended() -> None:
    broken = lines(interrupted=True, failure={"kind": "input", "message": "cut short"}, job=RESUMED)
    assert [] == [line for line in broken if "again to resume" in line]


def test_a_job_that_was_done_before_says_so_and_what_can_be_done_still() -> None:
    location = "results are in my results: look at them with `headgate show 'my results'`"
    finished = RESUMED | {"done": 200_000, "rows_before": 200_000, "finished": True}
    assert [
        (
            "finished already: 200,000 rows done, 60 failed: retry those with `headgate retry 'my results'`, "
            "or start over with --if-exists overwrite"
        ),
        location,
    ] == lines(**NO_ROWS, output="my results", job=finished)
    assert ["finished already: 200,000 rows done: start over with --if-exists overwrite", location] == lines(
        **NO_ROWS, output="my results", job=finished | {"failed": 0, "errors": {}}
    )


@pytest.mark.parametrize(
    ("expected", "job"),
    [
        ("resuming: 160,000 of 200,000 rows done", RESUMED),
        ("resuming: 160,000 rows done", RESUMED | {"rows": None}),
        (None, RESUMED | {"rows_before": 0}),
        (None, RESUMED | {"finished": True}),
        (None, RESUMED | {"done": 200_000}),
        (
            "this input can't be read again: if the job is stopped, it can't be resumed",
            RESUMED | {"rows_before": 0, "resumable": False},
        ),
        (None, None),
    ],
)
def test_the_greeting_says_how_much_is_done_or_that_the_job_cannot_be_resumed(
    expected: str | None, job: dict[str, Any] | None
) -> None:
    assert expected == greeting(Summary.from_json(summary_json(**NO_ROWS, job=job)))


def test_a_job_that_cannot_be_resumed_says_why() -> None:
    assert (
        "this job can't be resumed: its results went to standard output; with -o DIRECTORY it can"
        == (lines(interrupted=True, output="-")[-1])
    )
    pipe = RESUMED | {"resumable": False}
    for ending in ({"interrupted": True}, {"failure": {"kind": "output", "message": "disk full"}}):
        assert (
            "this job can't be resumed, because its input can't be read again; a job that reads a file can"
            == (lines(**ending, job=pipe)[-1])
        )
    assert [] == [line for line in lines(job=pipe | {"finished": True}) if "can't be resumed" in line]


def test_the_report_offers_a_retry_if_the_job_can_be_resumed() -> None:
    retry = "retry failed rows with `headgate retry 'my results'`"
    assert retry == lines(output="my results", job=RESUMED)[-1]
    for job in (None, RESUMED | {"failed": 0}, RESUMED | {"resumable": False}):
        assert [] == [line for line in lines(output="my results", job=job) if "headgate retry" in line]


def retried(**changes: Any) -> list[str]:
    return retry_report(Summary.from_json(summary_json(**changes)), as_flag).splitlines()


def test_the_report_of_a_retry_counts_rows_that_succeeded_and_rows_that_failed_once_more() -> None:
    job = RESUMED | {"done": 200_000, "rows_before": 0, "finished": True}
    again = retried(job=job)
    assert "done: 100,000 rows retried in 3.3 s" == again[0]
    assert [
        "  succeeded            99,985  (2xx: 99,955, 4xx: 30)",
        "  failed               15",
        "in total 200,000 of 200,000 rows done, 60 failed",
    ] == [line for line in again if line.startswith(("  succeeded", "  failed", "in total"))]
    assert [] == [line for line in again if "run the same" in line]
    assert "run the same command again to resume" == retried(interrupted=True, job=job)[-1]
    assert (
        "the job itself is not finished: run its `headgate fetch` again to resume it"
        == (retried(job=job | {"finished": False})[-1])
    )


def test_a_retry_that_is_stopped_at_once_has_the_results_of_before() -> None:
    stopped = retried(**NO_ROWS, interrupted=True, job=RESUMED | {"rows_before": 0, "finished": True})
    assert "results are in results: look at them with `headgate show results`" in stopped


def test_a_retry_without_rows_says_which_failures_there_are() -> None:
    job = RESUMED | {"rows_before": 0}
    none = "nothing to retry: no row of the job has failed"
    assert [none] == retried(**NO_ROWS, job=job | {"failed": 0, "finished": True})
    advice = "the job itself is not finished: run its `headgate fetch` again to resume it"
    assert [none, advice] == retried(**NO_ROWS, job=job | {"failed": 0})
    nothing = "nothing to retry among the 60 failed rows of the job (timeout 52, status:503 5, connection_closed 3)"
    assert [nothing] == retried(**NO_ROWS | {"notes": []}, job=job)
    assert [nothing, "note: so it is"] == retried(**NO_ROWS | {"notes": ["so it is"]}, job=job)


def test_the_report_offers_no_retry_of_invalid_requests() -> None:
    def offers(failed: int) -> list[str]:
        job = RESUMED | {"failed": failed, "errors": {"invalid_request": 60}}
        done = {"done": 200_000, "rows_before": 200_000, "finished": True}
        both = [*lines(job=job), *lines(**NO_ROWS, job=job | done)]
        return [line for line in both if "headgate retry" in line]

    assert (0, 2) == (len(offers(60)), len(offers(61)))


def test_requests_that_were_dropped_after_the_grace_are_counted() -> None:
    assert "  abandoned            1,234  in flight at the end: not in the results, and can be fetched again" in lines(
        interrupted=True, abandoned=1_234
    )
    assert [] == [line for line in lines(interrupted=True) if "abandoned" in line]


def test_after_a_failed_write_the_report_does_not_claim_that_all_results_exist(tmp_path: Path) -> None:
    full = {"kind": "output", "message": "disk full"}
    place_job(tmp_path)
    assert (
        f"what was committed before the failure is safe in {tmp_path}" == lines(failure=full, output=str(tmp_path))[-1]
    )
    assert lines(failure={"kind": "input", "message": "cut short"})[-1].startswith("results are in results")


def test_nothing_is_called_safe_in_a_directory_that_is_gone_or_replaced(tmp_path: Path) -> None:
    for output in (str(tmp_path / "gone"), str(tmp_path)):
        failed = lines(failure={"kind": "output", "message": "renamed"}, job=RESUMED, output=output)
        assert f"the job can't be found in {output} now: restore the directory to resume it" == failed[-1]


def test_the_cost_of_a_request_is_shown_if_there_are_enough() -> None:
    assert "  CPU                  5.4 s, 542.0 s per million requests" in lines(rows=10_000)
    assert "  CPU                  5.4 s" in lines(rows=9_999)


def test_attempts_that_failed_have_latencies_too() -> None:
    assert "  latency              p50 8.1 ms, p90 12 ms, p99 21 ms, max 1.50 s" in lines(succeeded=0, statuses={})


@pytest.mark.parametrize(
    ("expected", "url"),
    [
        ("", ""),
        ("http://a/" + "b" * 71 + ": ", "http://a/" + "b" * 71),
        ("http://a/" + "b" * 70 + "…: ", "http://a/" + "b" * 72),
    ],
)
def test_a_url_that_failed_is_shown_as_far_as_it_helps(expected: str, url: str) -> None:
    example = {"invalid_request": {"row": 1, "url": url, "message": "no host"}}
    assert f"    invalid_request  1  row 1: {expected}no host" in lines(
        errors={"invalid_request": 1}, error_examples=example
    )


def test_all_notes_are_shown_also_one_that_was_shown_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    notes = ["http_proxy is set but ignored: to connect through it, use --proxy env", "another"]
    assert [f"note: {note}" for note in notes] == [line for line in lines(notes=notes) if line.startswith("note: ")]


def test_a_path_with_a_blank_can_be_pasted_into_a_shell() -> None:
    assert lines(output="my results")[-1] == "results are in my results: look at them with `headgate show 'my results'`"


def test_text_of_a_server_cannot_steer_the_terminal() -> None:
    hostile = {"protocol": {"row": 1, "url": "http://a/", "message": "garbage \x1b]0;owned\x07"}}
    text = report(Summary.from_json(summary_json(errors={"protocol": 1}, error_examples=hostile)))
    assert r"garbage \x1b]0;owned\x07" in text
