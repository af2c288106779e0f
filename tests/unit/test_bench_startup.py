"""The arithmetic of bench/startup.py. httpx need not be there."""

from typing import Any

import pytest

import startup
from harness.processes import Ended
from startup import OTHER, OURS, Run


def ended(**other: Any) -> Ended:
    made: dict[str, Any] = {"code": 0, "stdout": "0.006 0.01 0.002 13", "stderr": ""}
    return Ended(**(made | {"wall_s": 1, "cpu_s": 1, "user_cpu_s": 1, "peak_rss_bytes": 1} | other))


def run(client: str, round_: int, **figures: Any) -> Run:
    return Run(client=client, round=round_, **figures)


def test_the_times_of_a_run_are_what_its_process_printed_in_milliseconds() -> None:
    made = startup.run_of(OURS, 3, ended())
    assert run(OURS, 3, import_ms=pytest.approx(6), client_ms=pytest.approx(10), response_ms=pytest.approx(2)) == made


def test_a_run_that_failed_or_received_another_body_does_not_count() -> None:
    assert "httpx ended with 1: no module" == startup.run_of(OTHER, 1, ended(code=1, stderr="no module\n")).wrong
    assert "httpx received 12 bytes, not 13" == startup.run_of(OTHER, 1, ended(stdout="1 1 1 12")).wrong


def test_half_of_the_time_is_promised_of_the_pairs_of_a_round() -> None:
    made = [run(OURS, 1, import_ms=10, client_ms=6), run(OURS, 2, import_ms=1, client_ms=6, wrong="lost")]
    made += [run(OTHER, 1, import_ms=20, client_ms=10), run(OTHER, 2, import_ms=1, client_ms=99)]
    assert [(0.5, True), (0.6, False)] == [(target.measured, target.met) for target in startup.targets(made)]
    assert startup.ratio(made[:2], "import_ms") is None
