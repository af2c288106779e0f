"""The arithmetic of bench/limits.py."""

import math
from collections import Counter
from pathlib import Path

import pytest

from considerate import adaptive, cost, nginx_limits, rates, server_log, sold, troubled
from considerate.adaptive import Sample
from considerate.fetching import Fetched
from considerate.nginx_limits import Ran
from considerate.server_log import Entry
from support.trials import trial


def fetched(elapsed_s: float, *, succeeded: int = 0, failed: int = 0) -> Fetched:
    return Fetched(
        wall_s=elapsed_s, elapsed_s=elapsed_s, peak_rss_bytes=1, succeeded=succeeded, failed=failed, errors={}
    )


def test_the_log_of_a_server_is_read_in_the_order_of_its_times(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("2000000\t-\th:80\t/2\n1500000\t200\t\t/1?a\n")
    assert [Entry(1.5, "200", "", "/1?a"), Entry(2.0, "-", "h:80", "/2")] == server_log.read(tmp_path / "log")


@pytest.mark.parametrize(
    ("beyond", "times_s"),
    [
        (0.0, []),
        (1.0, [5.0]),
        (1.0, [0.0, 0.1, 0.2, 0.3]),
        (3.0, [0.0, 0.0, 0.0, 0.3, 0.4]),
        (2.5, [0.0, 0.1, 0.2, 0.25, 0.25]),
        # what was saved up before does not hide what came too fast
        (4.0, [0.0, 90.0, 90.0, 90.0, 90.0]),
    ],
)
def test_the_burst_is_what_any_window_has_beyond_the_rate(beyond: float, times_s: list[float]) -> None:
    assert beyond == pytest.approx(server_log.most_beyond(times_s, 10.0))


def test_a_rate_is_used_up_if_its_requests_come_when_they_may() -> None:
    kept = rates.of_times(100, [index / 100 for index in range(1_001)])
    assert [1.0, 1.0] == pytest.approx([kept.share, kept.beyond])
    assert 0.5 == pytest.approx(rates.of_times(100, [index / 50 for index in range(1_001)]).share, abs=0.001)
    assert [True, True] == [target.met for target in rates.finding([kept], []).targets]


def test_a_request_is_too_early_if_a_429_could_have_been_read_and_its_time_has_not_come() -> None:
    def early(*requests: tuple[float, str]) -> int:
        entries = [Entry(time_s, status, "h", "/") for time_s, status in requests]
        return server_log.too_early(entries, 2.0, on_its_way_s=0.1)

    assert 0 == early((0.0, "200"), (0.1, "429"), (0.15, "429"), (2.15, "200"), (2.2, "429"), (4.2, "200"))
    assert 1 == early((0.0, "429"), (1.0, "200"))
    # whoever is refused again is told to come later still
    assert 2 == early((0.0, "429"), (1.0, "429"), (2.0, "200"))
    assert 0 == early((0.0, "200"), (0.1, "200"))


def test_the_shortest_time_is_that_of_the_limit_which_is_used_up_last() -> None:
    assert 40 - 0.05 == pytest.approx(sold.shortest_s([1] * 20_000, []))
    assert 42 - 0.05 == pytest.approx(sold.shortest_s([1] * 20_000, range(1_000)))
    assert 60 + 60 * 0.1 - 0.05 == pytest.approx(sold.shortest_s([1_000] * 1_000, range(100)))


def test_a_row_without_a_response_of_the_api_is_wrong() -> None:
    limits = {"api_failed_first": 1_000, "api_rate": 100, "api_concurrency": 111}
    found = sold.finding(fetched(44.0, succeeded=sold.ROWS), limits, 42.0)
    assert [("1.048 times", True), ("0.0099 of all", True)] == [(each.shown, each.met) for each in found.targets]
    assert [] == found.wrong
    found = sold.finding(fetched(44.0, succeeded=19_999), limits, 42.0)
    assert ["19,999 of 20,000 rows succeeded: {}"] == found.wrong


def samples(*per_s: int, every_s: float = 0.5) -> list[Sample]:
    made = [Sample(time_s=0.0, succeeded=0, refused=0, in_progress=0)]
    for rate in per_s:
        last = made[-1]
        succeeded = last.succeeded + round(rate * every_s)
        made.append(Sample(time_s=last.time_s + every_s, succeeded=succeeded, refused=succeeded // 100, in_progress=7))
    return made


def test_only_the_second_half_of_a_run_counts() -> None:
    found = adaptive.steady(samples(0, 0, 0, 0, 200, 200, 200, 200, 200))
    assert (200.0, 7.0) == (found["responses_per_s"], found["in_progress"])
    assert 0.0099 == pytest.approx(found["refused"], abs=0.0001)
    assert {"responses_per_s": 0.0, "refused": 0.0, "in_progress": 0.0} == adaptive.steady([])


def test_a_server_is_used_again_when_a_window_has_enough_responses() -> None:
    seen = samples(100, 100, 20, 20, 60, 94, 94, 94)
    assert 2.5 == adaptive.back_after(seen, 1.0, 90, 1.0, until_s=4.0)
    assert 1.0 == adaptive.back_after(seen, 0.0, 90, 1.0, until_s=4.0)
    assert adaptive.back_after(seen, 1.0, 96, 1.0, until_s=4.0) == math.inf
    assert adaptive.back_after(seen, 1.0, 90, 1.0, until_s=3.0) == math.inf


def test_a_run_with_failing_hosts_is_compared_with_one_of_healthy_hosts() -> None:
    def ran(per_s: float, **rows: int) -> troubled.Ran:
        entries = [Entry(index / per_s, "200", "h", "/row") for index in range(101)]
        return troubled.Ran(fetched=fetched(25.0, **rows), healthy=entries, refusing=[Entry(0, "429", "r", "/")])

    found = troubled.finding(ran(100.0), ran(90.0, succeeded=70_700, failed=1_000))
    assert ["1.000 times", "0.90", "0 requests"] == [target.shown for target in found.targets]
    assert [True, False, True] == [target.met for target in found.targets]
    assert [] == found.wrong


def test_refusals_of_nginx_are_those_of_all_attempts() -> None:
    def ran(elapsed_s: float, **statuses: int) -> Ran:
        of_status = Counter({name.removeprefix("_"): count for name, count in statuses.items()})
        return Ran(asked="", fetched=fetched(elapsed_s), statuses=of_status)

    found = nginx_limits.finding([ran(1, _200=1), ran(10.0, _200=1_000), ran(11.0, _200=1_000, _503=100)])
    assert ["0 responses", "0.91", "0.091 of all"] == [target.shown for target in found.targets]
    assert [True, True, False] == [target.met for target in found.targets]


def test_limits_are_held_against_none_and_none_against_the_version_before() -> None:
    of_round = [(cost.BEFORE, 100), (cost.NONE, 99), (cost.ALL, 80)]
    trials = [trial(f"{label}, none", 1, rate, cell="one host", concurrency=1_000) for label, rate in of_round]
    found = cost.finding(trials)
    assert [("0.99", True), ("0.81", False)] == [(target.shown, target.met) for target in found.targets]
    alone = cost.finding([each for each in trials if each.client != "before, none"])
    assert [None, pytest.approx(80 / 99)] == [target.measured for target in alone.targets]


def test_trials_on_busy_cores_are_marked_as_no_proof() -> None:
    def found(*cpu_s: float) -> str:
        trials = [
            trial(f"{cost.NONE}, none", 1, 99, cell="one host", wall_s=1, cpu_s=each, server_cpu_s=0.1)
            for each in cpu_s
        ]
        return cost.finding(trials).text

    assert "**In 1 of 2 trials neither core was busy" in found(0.9, 0.3)
    assert "neither core was busy" not in found(0.9, 0.9)
