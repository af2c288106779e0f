"""The arithmetic of bench/: a benchmark that is wrong is worse than none."""

from pathlib import Path

import pytest

from harness.schedule import ideal_s, median_ideal_s
from harness.trial import Trial, median_ratio, mistakes
from rivals import Claim, Load
from rivals.headgate import Headgate


def trial(client: str, round_: int, requests_per_s: float, *, wrong: str = "") -> Trial:
    return Trial(
        scenario="throughput",
        round=round_,
        client=client,
        concurrency=64,
        requests=1000,
        requests_per_s=requests_per_s,
        elapsed_s=1.0,
        wall_s=1.1,
        cpu_s=1.0,
        peak_rss_bytes=1,
        server_requests=1000,
        server_connections=64,
        server_cpu_s=1.0,
        wrong=wrong,
    )


def found(claim: Claim, *, seen: int, exact: bool = True) -> list[str]:
    load = Load(url="http://127.0.0.1:1", requests=100, seconds=1, concurrency=8, scratch=Path())
    return mistakes(load, claim, exact=exact, seen=seen, wall_s=1.0)


@pytest.mark.parametrize(
    ("expected", "delays_s", "slots"),
    [
        (0, [], 3),
        (6, [3, 1, 2], 1),
        (3, [3, 1, 2], 2),
        (3, [3, 1, 2], 3),
        (4, [1, 1, 3], 2),
        (3, [3, 1, 1], 2),
        (0, [0] * 100, 1),
    ],
)
def test_each_request_starts_as_soon_as_a_slot_is_free(expected: float, delays_s: list[float], slots: int) -> None:
    assert expected == ideal_s(delays_s, slots)


def test_the_ideal_of_the_original_experiment_is_littles_law_and_a_tail() -> None:
    # 10,000 requests x 1.5 s / 1,000 slots, and less than the longest delay for the last to end
    assert 15 <= median_ideal_s(requests=10_000, slots=1000, longest_s=3, simulations=5) <= 18


def test_a_ratio_pairs_the_runs_of_each_round() -> None:
    # each round finds another machine; the ratio of the medians would be 50 / 100
    trials = [trial("a", 1, 200), trial("a", 2, 20), trial("a", 3, 50)]
    trials += [trial("b", 1, 100), trial("b", 2, 10), trial("b", 3, 100)]
    assert 2 == median_ratio(trials, "a", "b")


def test_wrong_runs_have_no_part_in_a_ratio() -> None:
    trials = [trial("a", 1, 200), trial("b", 1, 100), trial("a", 2, 900, wrong="lost"), trial("b", 2, 100)]
    assert 2 == median_ratio(trials, "a", "b")
    assert median_ratio(trials[2:], "a", "b") is None


def test_a_true_claim_has_no_mistakes() -> None:
    assert [] == found(Claim(answered=100, elapsed_s=0.9, body_bytes=1300), seen=100)


def test_a_client_that_the_clock_stops_may_leave_as_much_as_it_has_in_flight() -> None:
    assert [] == found(Claim(answered=72, elapsed_s=0.9), seen=80, exact=False)
    assert ["the server saw 81 requests, the client counts 72"] == found(
        Claim(answered=72, elapsed_s=0.9), seen=81, exact=False
    )


def test_every_untruth_is_named() -> None:
    expected = [
        "1 times timeout",
        "99 of 100 requests were answered",
        "the server saw 101 requests, the client counts 99",
        "1,300 bytes of bodies, not 1,287",
        "1.50 s by its own clock, but it ran for 1.00 s",
    ]
    claim = Claim(answered=99, elapsed_s=1.5, body_bytes=1300, complaints=("1 times timeout",))
    assert expected == found(claim, seen=101)


def test_a_debug_build_is_refused(tmp_path: Path) -> None:
    program, python = tmp_path / "headgate", tmp_path / "python"
    program.touch()
    python.write_text("#!/bin/sh\necho True\n")
    python.chmod(0o755)
    assert f"{program} is not a release build; run: make build" == Headgate(program, "none").missing()

    python.write_text("#!/bin/sh\necho False\n")
    assert Headgate(program, "none").missing() is None
