"""The text that Prometheus reads: its labels are bounded, and the documents name what it has."""

import re
from typing import Any

import pytest

from headgate.jobs._metrics import exposition
from support.documents import text
from support.figures import snapshot_json, summary_json

COMMIT = {"number": 1, "done": 10, "failed": 1, "parts": 1, "bytes": 1000}


def snapshot(**changes: Any) -> str:
    complete: dict[str, Any] = {
        "phase": "running",
        "latencies": {"up_to_us": [[1_000, 1], [2_500, 3]], "count": 4, "sum_us": 9_000},
        "throttled_s": {"pause": 2.5},
        "attempts": 12,
        "lanes_waiting": {"dns": 1},
        "pauses": {"a.test": 3, "others": 4},
        "paused_hosts": 1,
        "breakers_opened": {"a.test": 2},
        "open_breakers": 1,
        "network_down_s": None,
        "commit": COMMIT,
        "since_last_row_s": 0.5,
        "unresponsive_s": 0.0,
        "writing_s": None,
        "requests": 20,
        "cost": 5,
    }
    return snapshot_json(**complete | changes)


def samples(**changes: Any) -> dict[str, float]:
    lines = [line for line in exposition(snapshot(), summary_json(**changes)).splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_no_label_has_a_name_of_a_host_and_invented_statuses_are_one() -> None:
    found = samples(statuses={"200": 5, "299": 2, "298": 1}, errors={"timeout": 7, "status:503": 5, "status:599": 3})
    assert (5, 3) == (found['headgate_responses_total{code="200"}'], found['headgate_responses_total{code="other"}'])
    assert (5, 3) == (
        found['headgate_errors_total{kind="status:503"}'],
        found['headgate_errors_total{kind="status:other"}'],
    )
    assert (7, 2) == (found["headgate_pauses_total"], found["headgate_circuit_breakers_opened_total"])
    assert not [name for name in found if "a.test" in name]


def test_the_histogram_is_cumulative_and_in_seconds() -> None:
    found = samples()
    buckets = [found[f'headgate_request_duration_seconds_bucket{{le="{le}"}}'] for le in ("0.001", "0.0025", "+Inf")]
    assert [1, 3, 4] == buckets
    assert (4, 0.009) == tuple(found[f"headgate_request_duration_seconds_{name}"] for name in ("count", "sum"))


@pytest.mark.parametrize("page", ["docs/operations.md", "docs/fetch.md"])
def test_every_metric_that_a_page_names_is_served(page: str) -> None:
    served = set(re.findall(r"^# TYPE (\w+)", exposition(snapshot(), summary_json()), re.MULTILINE))
    named = set(re.findall(r"\bheadgate_\w+", text(page))) - {"headgate_"}
    assert named
    assert named <= served
