"""How bench/paid_api.py judges a job."""

from dataclasses import replace

from paid_api import finding
from support.paid import SMALL, Bill

GOOD = Bill(requests=102, minimum=100, unauthorized=1, throttled=0, renewals=9, seconds=8.5, right=SMALL.rows, wrong=[])


def test_a_job_within_two_percent_of_the_minimum_keeps_its_promise() -> None:
    found = finding(SMALL, GOOD)
    assert [] == found.wrong
    assert [True, True] == [target.met for target in found.targets]
    assert "| tokens issued | 9 (at least 8 in this time) |" in found.text


def test_everything_that_is_not_as_promised_is_wrong() -> None:
    found = finding(SMALL, replace(GOOD, requests=103, right=SMALL.rows - 1, wrong=["row 7: lost"]))
    assert [
        "row 7: lost",
        "requests: at most 1.02 times the smallest number: 1.0300 times the smallest number",
        "rows that are right: 600: 599",
    ] == found.wrong
