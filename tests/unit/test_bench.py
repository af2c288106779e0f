"""The arithmetic of bench/: a benchmark that is wrong is worse than none."""

import itertools
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import columns, in_turn, processes
from harness.in_turn import Series, rounds
from harness.schedule import ideal_s, median_ideal_s
from harness.trial import Cores, Plan, Trial, median_ratio, mistakes
from rivals import Claim
from rivals.headgate import Headgate
from rivals.wrk import Wrk
from support.trials import trial


def found(claim: Claim, *, seen: int, exact: bool = True) -> list[str]:
    plan = Plan(scenario="throughput", round=1, concurrency=8, requests=100, seconds=1, longest_s=1)
    return mistakes(plan, claim, exact=exact, seen=seen, wall_s=1.0)


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
    assert [] == found(Claim(succeeded=100, elapsed_s=0.9, body_bytes=1300), seen=100)


def test_a_client_that_the_clock_stops_may_leave_as_much_as_it_has_in_flight() -> None:
    assert [] == found(Claim(succeeded=72, elapsed_s=0.9), seen=80, exact=False)
    assert ["the server saw 81 requests, the client counts 72"] == found(
        Claim(succeeded=72, elapsed_s=0.9), seen=81, exact=False
    )


def test_a_client_that_got_no_response_has_no_figure() -> None:
    assert ["nothing succeeded"] == found(Claim(succeeded=0, elapsed_s=0.9), seen=0, exact=False)


def test_every_untruth_is_named() -> None:
    expected = [
        "1 times timeout",
        "99 of 100 requests succeeded",
        "the server saw 101 requests, the client counts 99",
        "1,300 bytes of bodies, not 1,287",
        "1.50 s by its own clock, but it ran for 1.00 s",
    ]
    claim = Claim(succeeded=99, elapsed_s=1.5, body_bytes=1300, complaints=("1 times timeout",))
    assert expected == found(claim, seen=101)


def test_a_debug_build_is_refused(tmp_path: Path) -> None:
    program, python = tmp_path / "headgate", tmp_path / "python"
    program.touch()
    python.write_text("#!/bin/sh\necho True\n")
    python.chmod(0o755)
    assert f"{program} is not a release build; run: make build" == Headgate(program, "none").missing()

    python.write_text("#!/bin/sh\necho False\n")
    assert Headgate(program, "none").missing() is None


@pytest.mark.parametrize("number", range(1, 7))
def test_in_each_round_each_entrant_has_a_turn_and_each_follows_each_other_equally_often(number: int) -> None:
    entrants = range(number)
    how_many = number * (1 + number % 2)
    made = list(rounds(entrants, how_many))
    turns = [[name for round_, name in made if round_ == wanted] for wanted in range(1, how_many + 1)]
    assert all(sorted(turn) == list(entrants) for turn in turns)
    assert number == len({turn[0] for turn in turns[:number]})
    follows = Counter(pair for turn in turns for pair in itertools.pairwise(turn))
    assert all(follows[one, other] == 1 + number % 2 for one, other in itertools.permutations(entrants, 2))


def test_a_trial_lasts_as_long_as_it_should_at_the_rate_of_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[Plan] = []

    def attempt(plan: Plan, *_: object) -> Trial:
        plans.append(plan)
        return trial("wrk", plan.round, requests_per_s=1_000 * (plan.round + 1))

    monkeypatch.setattr(in_turn, "attempt", attempt)
    series = Series(scenario="throughput", concurrency=64, rounds=3, seconds=4.0, least=10_000)
    server: Any = None
    made = list(in_turn.trials(series, [Wrk()], server, Cores(server=0, client=1)))
    assert [1, 2, 3] == [trial.round for trial in made]
    assert [(0, 200_000, 2.0), (1, 10_000, 4.0), (2, 10_000, 4.0), (3, 12_000, 4.0)] == [
        (plan.round, plan.requests, plan.seconds) for plan in plans
    ]


def test_figures_are_medians_of_the_trials_that_count() -> None:
    trials = [trial("a", 1, 100, cpu_s=0.001), trial("a", 2, 300, cpu_s=0.003), trial("a", 3, 900, wrong="lost")]
    names = (columns.REQUESTS_PER_S, columns.RANGE, columns.CPU_US, columns.TRIALS)
    assert ["200", "100 to 300", "2.0", "**1 of 3 WRONG**"] == columns.figures(trials, *names)
    assert ["–", "–", "–", "**1 of 1 WRONG**"] == columns.figures(trials[2:], *names)  # noqa: RUF001 - an en dash


def run_here(program: str, is_due: Callable[[int], bool] | None = None) -> processes.Ended:
    core = min(os.sched_getaffinity(0))
    return processes.run([sys.executable, "-S", "-c", program], core=core, longest_s=50, is_due=is_due)


def test_a_process_that_ends_soon_has_a_peak_of_its_own() -> None:
    # this process is larger, so that what the kernel says of the other is what this one has taken
    ended = run_here("sum(range(2_000_000))")
    assert 1_000_000 < ended.peak_rss_bytes < processes.peak_rss_bytes(os.getpid())


def test_a_process_is_killed_when_it_is_due() -> None:
    ended = run_here("while True: pass", is_due=lambda pid: processes.rss_bytes(pid) > 0)
    assert -signal.SIGKILL == ended.code
