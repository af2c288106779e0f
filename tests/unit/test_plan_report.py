"""The report on a job that has not begun."""

from dataclasses import replace
from typing import Any

import pytest

from headgate._message import as_keyword
from headgate.cli._flags import as_flag
from headgate.jobs import _report_plan
from headgate.jobs._job_options import PlanOptions
from headgate.jobs._planned import Planned, Probe
from support.plans import CEILING, REQUEST, planned


def time(plan: Planned) -> str:
    return _report_plan.time(plan, as_flag)


def facts(plan: Planned) -> dict[str, str]:
    return {name.strip(): fact for name, fact in _report_plan.facts(plan, as_flag)}


SLOWEST = CEILING | {"option": "rate_per_host", "per_s": 50.0, "limit": 30.0, "host": "a.example", "host_share": 0.6}
IN_FLIGHT = CEILING | {"option": "concurrency", "per_s": 2560.0, "limit": 256.0}
FEW_IN_FLIGHT = SLOWEST | {"option": "concurrency_per_host", "per_s": 33.3, "limit": 2.0}


def test_credentials_are_shown_with_the_rows_that_go_without() -> None:
    def said(origins: list[str], rows_without: int) -> str:
        return facts(planned(credentials={"origins": origins, "rows_without": rows_without}))["credentials"]

    assert "for https://a.example, https://*.b.example; 1,000 rows of the first 100,000 without" == said(
        ["https://a.example", "https://*.b.example"], 1000
    )
    assert "for every host" == said(["*"], 0)
    assert "credentials" not in facts(planned())


def test_the_report_has_all_that_is_known() -> None:
    plan = replace(planned(), time=time(planned()))
    assert _report_plan.report(plan, as_flag).splitlines() == [
        "plan: nothing was sent",
        "  input        urls.txt",
        "  rows         50,000,000",
        "  results      results: a new job",
        "  hosts        2 in the first 100,000 rows",
        "    a.example  60,000",
        "    b.example  40,000",
        "  network      any address but link-local and metadata ones",
        "  machine      256 connections: 336 of 20,000 open files, 256 of 28,232 local ports for one address",
        "how long it takes follows from the time of an answer: give that with --assume-latency-s, or use --probe 10",
        "",
        "row 0 to http://a.example",
        "  GET /0 HTTP/1.1",
        "  host: a.example",
        "  user-agent: headgate/1",
        "  accept: */*",
        "  authorization: ***",
    ]


def test_the_network_policy_is_shown_with_its_options() -> None:
    policy = {
        "network": "public",
        "allow_net": ["10.0.0.0/8"],
        "deny_net": ["10.1.0.0/16", "::1/128"],
        "allow_port": [443],
    }
    assert facts(planned(network=policy))["network"] == (
        "public addresses only; --allow-net 10.0.0.0/8; --deny-net 10.1.0.0/16; --deny-net ::1/128; --allow-port 443"
    )


@pytest.mark.parametrize(
    ("expected", "ceiling", "seconds", "latency_s"),
    [
        (
            "at most 100/s by --rate: 50,000,000 rows take 5 d 18 h, unless answers take more than 2.6 s",
            CEILING,
            500_000.0,
            None,
        ),
        ("at most 100/s by --rate: 50,000,000 rows take 5 d 18 h", CEILING, 500_000.0, 0.1),
        (
            "at most 1 in 10 s by --rate: 50,000,000 rows take 5787 d 00 h",
            CEILING | {"per_s": 0.1, "limit": 0.1},
            500_000_000.0,
            0.1,
        ),
        (
            "at most 50/s by --rate-per-host (a.example has 60 % of the rows, at 30/s): 50,000,000 rows take 11 d 13 h",
            SLOWEST,
            1_000_000.0,
            0.1,
        ),
        (
            "at most 30/s by --rate-per-host (a.example): 50,000,000 rows take 19 d 06 h",
            SLOWEST | {"host_share": 1.0, "per_s": 30.0},
            1_666_666.0,
            0.1,
        ),
        (
            "at most 2,560/s by --concurrency (256 in flight, 100 ms an answer): 50,000,000 rows take 5 h 25 min",
            IN_FLIGHT,
            19_531.25,
            0.1,
        ),
        (
            (
                "at most 33/s by --concurrency-per-host (2 in flight, 100 ms an answer; a.example has 60 % of the"
                " rows): 50,000,000 rows take 17 d 08 h"
            ),
            FEW_IN_FLIGHT,
            1_500_000.0,
            0.1,
        ),
    ],
)
def test_one_sentence_names_what_bounds_the_job_and_how_long_it_takes(
    expected: str, ceiling: dict[str, Any], seconds: float, latency_s: float | None
) -> None:
    assert expected == time(planned(ceilings=[ceiling], seconds=seconds, latency_s=latency_s))


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("at most 100/s by --rate; how long that takes depends on how many rows there are", {"requests_left": None}),
        ("at most 100/s by --rate: about 1,230,000 rows take 3 h 25 min", {"rows_exact": False, "left": 1_234_567}),
        ("at most 100/s by --rate: 1,234,567 requests take 3 h 25 min", {"left": 1_300_000}),
        ("at most 100/s by --rate: 1 row takes 3 h 25 min", {"left": 1, "requests_left": 1}),
        ("there is nothing to send", {"requests_left": 0}),
        ("nothing is left to do: start over with --fresh", {"directory": "finished"}),
    ],
)
def test_it_says_no_more_than_is_known(expected: str, changes: dict[str, Any]) -> None:
    known = {"ceilings": [CEILING], "seconds": 12_345.67, "latency_s": 0.1, "left": 1_234_567}
    assert expected == time(planned(**known | {"requests_left": 1_234_567} | changes))


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("50,000,000", {}),
        ("about 1,230,000: an estimate from the first 100,000 of 2.8 GiB", {"rows": 1_234_567, "rows_exact": False}),
        (
            "more than 100,000, how many is not known: 2.8 GiB, compressed",
            {"rows": None, "rows_exact": False, "compressed": True},
        ),
    ],
)
def test_an_estimate_is_called_one(expected: str, changes: dict[str, Any]) -> None:
    assert expected == facts(planned(**changes))["rows"]


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        ("results: the job there goes on", {"directory": "resumed"}),
        ("results: the job there is finished, 7 rows done", {"directory": "finished", "done": 7}),
        ("results: 1 row of an earlier job there are replaced", {"directory": "replaced", "rows_replaced": 1}),
        ("standard output", {"directory": "none", "output": "-"}),
    ],
)
def test_the_plan_says_what_becomes_of_existing_results(expected: str, changes: dict[str, Any]) -> None:
    assert expected == facts(planned(**changes))["results"]


def test_rows_that_are_done_and_rows_that_can_not_be_sent_are_counted() -> None:
    invalid = {"row": 3, "url": "x:y", "message": "not an absolute URL", "detail": "line 4"}
    found = facts(planned(done=1200, left=49_998_800, invalid_rows=2000, first_invalid=invalid))
    assert ("1,200, 49,998,800 left", "2,000, the first is row 3: x:y: not an absolute URL (line 4)") == (
        found["done"],
        found["invalid"],
    )


def test_each_limit_is_listed_where_there_are_several() -> None:
    found = list(_report_plan.facts(planned(ceilings=[CEILING, IN_FLIGHT], seconds=1.0), as_flag))
    assert [("at most", "100/s by --rate"), ("", "2,560/s by --concurrency")] == found[-2:]


def test_the_plan_shows_the_requests_and_responses_of_a_probe() -> None:
    probe = Probe(requests=5, latency_s=0.05, statuses={200: 3, 503: 1}, errors={"timeout": 1})
    plan = replace(planned(), probe=probe)
    assert "plan: 5 requests sent as a probe, and nothing else" == _report_plan.headline(plan)
    assert "median 50 ms (200: 3, 503: 1, timeout: 1)" == facts(plan)["probe"]
    assert (
        "no answer (connect: 5)"
        == facts(replace(plan, probe=replace(probe, latency_s=None, statuses={}, errors={"connect": 5})))["probe"]
    )


def test_a_body_is_shown_as_text_and_no_further_than_one_reads() -> None:
    def body(text: str | None, base64: str | None = None) -> list[str]:
        told = {"bytes": 5000, "text": text, "base64": base64}
        return list(_report_plan.requests(planned(requests=[REQUEST | {"body": told}])))[6:-1]

    assert ["", "  a", r"  b\x1b[2J"] == body("a\nb\x1b[2J")
    assert ["", "  " + "x" * 2000, "  … (5,000 bytes in all)"] == body("x" * 2001)
    assert ["", "  (5,000 bytes that are no text)"] == body(None, "/w==")


def test_files_of_a_body_are_named_between_its_text() -> None:
    pieces = [
        {"text": '--x\r\ncontent-disposition: form-data; name="a"\r\n\r\n1\x1b'},
        {"file": {"path": "a\nb.png", "bytes": 5000}},
        {"base64": "/w=="},
        {"text": "\r\n--x--\r\n"},
    ]
    plan = planned(requests=[REQUEST | {"body": {"bytes": 1, "text": None, "base64": None, "pieces": pieces}}])
    assert [
        "",
        "  --x",
        '  content-disposition: form-data; name="a"',
        "  ",
        r"  1\x1b<contents of a\nb.png, 5,000 bytes><1 byte that are no text>",
        "  --x--",
        "  ",
    ] == list(_report_plan.requests(plan))[6:-1]


def test_a_host_cannot_steer_the_terminal() -> None:
    assert "\x1b" not in _report_plan.report(planned(input="\x1b[2J", notes=["\x1b[2J"]), as_keyword)


def test_latency_is_assumed_or_measured_and_output_may_be_missing() -> None:
    def mistakes(**given: Any) -> list[str]:
        return [f"{each.option} {each.message}" for each in PlanOptions(input="urls.txt", **given).mistakes()]

    assert [] == mistakes() == mistakes(probe=10) == mistakes(assume_latency_s=0.1, output="results")
    assert ["probe must be at least 1, not 0"] == mistakes(probe=0)
    both = "assume_latency_s and probe both say how long an answer takes: leave one of them out"
    assert [both] == mistakes(probe=1, assume_latency_s=1.0)
