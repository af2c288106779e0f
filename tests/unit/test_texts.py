"""The texts that a person reads while a job runs and at its end: all of them in one file, from top to bottom.

`HEADGATE_WRITE_SNAPSHOT=1 pytest tests/unit/test_texts.py` writes the file anew; read what has changed.
"""

import json
import os
from collections.abc import Iterator
from typing import Any, Final

from headgate import JobStatus, Snapshot, Summary
from headgate._native import ERROR_KINDS
from headgate.cli._exit_codes import MEANINGS, STATUS_MEANINGS
from headgate.cli._flags import as_flag
from headgate.jobs import _display, _report
from headgate.jobs._status import report as status_report
from support.documents import ROOT
from support.figures import RESUMED, SNAPSHOT, STATUS, SUMMARY

FILE: Final = ROOT / "tests/snapshots/texts.txt"

FAILURE: Final = {"kind": "output", "message": ["results/part-00000001.parquet.tmp: no space left on device"]}
THROTTLED: Final = {
    "retries": {"status:503": 1_200, "timeout": 3},
    "not_retried": 7,
    "resent": 1_004,
    "headers_skipped": 12,
    "pauses": {"api.example.com": 39},
    "stalled_s": 6.0,
    "throttled_s": {
        cause: 10.0 - index / 2
        for index, cause in enumerate(
            (
                *("rate", "cost", "host_rate", "host_concurrency", "pause", "circuit_breaker", "network", "backoff"),
                *("retry_budget", "head_of_line", "paused"),
            )
        )
    },
}
FINISHED: Final = RESUMED | {"rows_before": 200_000, "done": 200_000, "finished": True}


def summary(**changes: Any) -> Summary:
    return Summary.from_json(json.dumps(SUMMARY | changes), as_flag)


def snapshot(**changes: Any) -> Snapshot:
    return Snapshot.from_json(json.dumps(SNAPSHOT | changes), as_flag)


def texts() -> Iterator[tuple[str, str]]:
    """Yields each text with its occasion."""
    slow = {"host": "shop.example", "rows": 26, "in_flight": 2}
    yield "the start of a resumed job", str(_report.greeting(summary(job=RESUMED)))
    yield "the start of a job that can't be resumed", str(_report.greeting(summary(job=RESUMED | {"resumable": False})))
    yield "progress, a line", _display.progress_line(snapshot())
    yield "progress, a short line", _display.short_line(snapshot(slowest_host=slow))
    yield "progress of a job that waits for one host", _display.progress_line(snapshot(slowest_host=slow))
    yield "progress while stopping", _display.progress_line(snapshot(stopping=True))
    yield "the end", _report.report(summary(), as_flag)
    yield "the end, with retries and limits", _report.report(summary(**THROTTLED), as_flag)
    yield "the end of a resumed job", _report.report(summary(job=RESUMED | {"finished": True}), as_flag)
    yield "interrupted", _report.report(summary(job=RESUMED, interrupted=True, abandoned=1_234), as_flag)
    yield "stopped by itself", _report.report(summary(job=RESUMED, stopped_by="more than 10 rows failed"), as_flag)
    yield "a full disk", _report.report(summary(job=RESUMED, failure=FAILURE), as_flag)
    yield "no row was done", _report.report(summary(rows=0, succeeded=0, failed=0, errors={}, statuses={}), as_flag)
    yield "the reader is gone", _report.report(summary(reader_gone=True, output="-"), as_flag)
    yield "nothing to do", _report.report(summary(rows=0, job=FINISHED), as_flag)
    yield "the end of a retry", _report.retry_report(summary(job=FINISHED), as_flag)
    yield "a retry without rows", _report.retry_report(summary(rows=0, job=FINISHED), as_flag)
    yield "with --quiet", str(_report.failed_rows(summary(job=FINISHED)))
    yield "status", status_report(JobStatus.from_json(json.dumps(STATUS)))
    yield "exit codes", "\n".join(f"{code}  {meaning}" for code, meaning in MEANINGS.items())
    yield "exit codes of status", "\n".join(f"{code}  {meaning}" for code, meaning in STATUS_MEANINGS.items())
    yield "error kinds", "\n".join(f"{kind}: {when}" for kind, when in ERROR_KINDS)


def test_each_text_is_the_one_in_the_file() -> None:
    found = "\n\n".join(f"# {occasion}\n{text}" for occasion, text in texts()) + "\n"
    if os.environ.get("HEADGATE_WRITE_SNAPSHOT"):
        FILE.write_text(found, encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == found
