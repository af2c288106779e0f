"""Figures of a job, as the engine writes them."""

import json
from typing import Any

SNAPSHOT: dict[str, Any] = {
    "elapsed_s": 1.24,
    "rows": 37_412,
    "rows_known": 100_000,
    "fraction": 0.37412,
    "succeeded": 37_402,
    "failed": 10,
    "in_flight": 256,
    "concurrency": 256,
    "requests_per_s": 31_204.4,
    "requests_per_s_mean": 30_112.9,
    "p50_us": 8_123,
    "p99_us": 21_456,
    "received_bytes": 1_258_291,
    "rows_before": 0,
    "time_left_s": 2.07,
    "stopping": False,
    "stalled_s": 0.0,
    "bottleneck": {
        "kind": "concurrency",
        "text": (
            "bottleneck: concurrency. 256 requests in flight at a mean of 8.1 ms allow 31,605 requests/s; raise"
            " --concurrency"
        ),
    },
}

SUMMARY: dict[str, Any] = {
    "rows": 100_000,
    "succeeded": 99_985,
    "failed": 15,
    "statuses": {"200": 99_895, "204": 60, "404": 30},
    "errors": {"timeout": 7, "status:503": 5, "connection_closed": 3},
    "error_examples": {
        "timeout": {
            "row": 12,
            "url": "http://127.0.0.1:8080/12",
            "message": "no response came in time",
            "detail": None,
            "option": "timeout",
        },
        "status:503": {
            "row": 31,
            "url": "http://127.0.0.1:8080/31",
            "message": "the server responded with 503",
            "detail": None,
            "option": None,
        },
        "connection_closed": {
            "row": 400,
            "url": "http://127.0.0.1:8080/400",
            "message": "closed in the middle of the body",
            "detail": None,
            "option": None,
        },
    },
    "elapsed_s": 3.31,
    "requests_per_s": 30_211.4,
    "latency_us": {"p50": 8_123, "p90": 12_010, "p99": 21_456, "max": 1_503_000},
    "received_bytes": 1_299_870,
    "peak_rss_bytes": 67_108_864,
    "cpu_s": 5.42,
    "bottleneck": {"kind": "machine", "text": "bottleneck: this machine. Its workers are 98 % busy"},
    "output": "results",
    "interrupted": False,
    "reader_gone": False,
    "retries": {},
    "not_retried": 0,
    "resent": 0,
    "headers_skipped": 0,
    "requests": 100_000,
    "max_requests": None,
    "cost": None,
    "max_cost": None,
    "throttled_s": {},
    "stalled_s": 0.0,
    "pauses": {},
    "stopped_by": None,
    "notes": ["only 900 of 1,000 fit within the limit of open files"],
    "failure": None,
    "rows_known": 200_000,
    "abandoned": 0,
    "job": None,
}

RESUMED: dict[str, Any] = {
    "rows": 200_000,
    "max_rows": None,
    "done": 160_000,
    "rows_before": 60_000,
    "succeeded": 159_940,
    "failed": 60,
    "errors": {"timeout": 52, "status:503": 5, "connection_closed": 3},
    "finished": False,
    "resumable": True,
    "previous_killed_at": None,
}
"""A job whose second run has the summary above."""

STATUS: dict[str, Any] = {
    "output": "results",
    "input": "urls.txt",
    "format": "parquet",
    "rows": 200_000,
    "max_rows": None,
    "done": 160_000,
    "watermark": 159_000,
    "succeeded": 159_940,
    "failed": 60,
    "errors": {"connection_closed": 3, "status:503": 5, "timeout": 52},
    "requests": 160_012,
    "max_requests": None,
    "cost": None,
    "max_cost": None,
    "parts": 4,
    "bytes": 5_242_880,
    "parts_to_place": 0,
    "finished": False,
    "resumable": True,
    "state": "stopped",
    "running": False,
    "pid": None,
    "command": None,
    "heartbeat_at": None,
    "heartbeat_age_s": None,
    "progress": None,
    "started_at": "2026-11-20T20:19:33.069189Z",
    "committed_at": "2026-11-20T21:00:05.161937Z",
    "note": None,
    "set": {},
    "paused": False,
    "run_count": 2,
    "runs": [
        {
            "command": "fetch",
            "started_at": "2026-11-20T20:19:33.132902Z",
            "committed_at": "2026-11-20T20:21:07.161937Z",
            "rows": 60_000,
            "ended": False,
            "stopped_by": None,
            "by_failures": False,
        },
        {
            "command": "fetch",
            "started_at": "2026-11-20T20:58:00.132902Z",
            "committed_at": "2026-11-20T21:00:05.161937Z",
            "rows": 100_000,
            "ended": True,
            "stopped_by": None,
            "by_failures": False,
        },
    ],
}
"""The status of the same job."""


def snapshot_json(**changes: object) -> str:
    """Returns the snapshot above with changes, as JSON."""
    return json.dumps(SNAPSHOT | changes)


def summary_json(**changes: object) -> str:
    """Returns the summary above with changes, as JSON."""
    return json.dumps(SUMMARY | changes)


def status_json(**changes: object) -> str:
    """Returns the status above with changes, as JSON."""
    return json.dumps(STATUS | changes)
