import json

from headgate import JobFigures, Snapshot, Summary
from support.figures import RESUMED, SNAPSHOT, SUMMARY, snapshot_json, summary_json


def test_a_summary_is_read_with_its_parts() -> None:
    summary = Summary.from_json(summary_json(failure={"kind": "input", "message": "rows.csv.gz: cut short"}))

    assert {200: 99_895, 204: 60, 404: 30} == summary.statuses
    latency_us = summary.latency_us
    assert (8_123, 12_010, 21_456, 1_503_000) == (latency_us.p50, latency_us.p90, latency_us.p99, latency_us.max)
    example = summary.error_examples["timeout"]
    assert (12, "http://127.0.0.1:8080/12", None) == (example.row, example.url, example.detail)
    assert ("no response came in time", "timeout") == (example.message, example.option)
    assert ("machine", "bottleneck: this machine. Its workers are 98 % busy") == (
        summary.bottleneck.kind,
        summary.bottleneck.text,
    )
    assert summary.failure is not None
    assert ("input", "rows.csv.gz: cut short") == (summary.failure.kind, summary.failure.message)


def test_a_summary_is_written_under_the_names_it_was_read_from() -> None:
    retried = {
        "retries": {"status:503": 5},
        "not_retried": 2,
        "throttled_s": {"rate": 1.25},
        "pauses": {"a.example": 3},
    }
    retried |= {"max_requests": 200_000, "cost": 7, "max_cost": 9, "resent": 4, "headers_skipped": 6, "stalled_s": 6.5}
    for changes in ({}, retried):
        assert json.loads(Summary.from_json(summary_json(**changes)).to_json()) == SUMMARY | changes


def test_a_summary_survives_writing_and_reading() -> None:
    summary = Summary.from_json(summary_json(failure={"kind": "output", "message": "disk full"}, job=RESUMED))
    assert summary.job == JobFigures(**RESUMED)
    assert summary == Summary.from_json(summary.to_json())


def test_a_summary_of_an_earlier_engine_is_read() -> None:
    newer = ["abandoned", "rows_known", "job", "stopped_by", "retries", "not_retried", "throttled_s", "pauses"]
    newer += ["resent", "headers_skipped", "stalled_s", "requests", "max_requests", "cost", "max_cost"]
    older = {name: value for name, value in SUMMARY.items() if name not in newer}
    summary = Summary.from_json(json.dumps(older))
    assert (0, None, None, None) == (summary.abandoned, summary.rows_known, summary.job, summary.stopped_by)
    assert ({}, 0, {}, {}) == (summary.retries, summary.not_retried, summary.throttled_s, summary.pauses)
    assert (0, 0, 0) == (summary.resent, summary.headers_skipped, summary.stalled_s)
    earlier = {name: value for name, value in SNAPSHOT.items() if name not in {"rows_before", "stalled_s"}}
    assert 0 == Snapshot.from_json(json.dumps(earlier)).rows_before


def test_unknown_figures_of_a_snapshot_are_none() -> None:
    snapshot = Snapshot.from_json(snapshot_json(rows_known=None, fraction=None, time_left_s=None))
    assert (None, None, None) == (snapshot.rows_known, snapshot.fraction, snapshot.time_left_s)


def test_a_row_that_failed_in_an_earlier_run_is_a_failed_row_of_the_job() -> None:
    def has_failed_rows(failed: int, job: dict[str, object] | None) -> bool:
        return Summary.from_json(summary_json(failed=failed, job=job)).has_failed_rows

    assert has_failed_rows(0, RESUMED | {"failed": 1})
    assert not has_failed_rows(0, RESUMED | {"failed": 0})
    # A row that failed first and succeeded later counts as succeeded.
    assert not has_failed_rows(1, RESUMED | {"failed": 0})
    assert has_failed_rows(1, None)
    assert not has_failed_rows(0, None)
