"""The arithmetic of bench/portal.py, and a call with each of its candidates."""

import asyncio
from typing import Any

import pytest

from crossing.cost import Run, ratio, targets
from crossing.ways import ANYIO, OURS, STDLIB, WAYS


def run(way: str, round_: int, us: float, **other: Any) -> Run:
    found: dict[str, Any] = {"loop": "asyncio", "cores": 1, "threads": 8, "calls": 100, "cpu_us": us} | other
    return Run(way=way, round=round_, **found)


def test_a_ratio_pairs_the_runs_of_each_round_and_leaves_out_what_is_wrong() -> None:
    made = [run(OURS, 1, 20), run(OURS, 2, 12), run(OURS, 3, 300), run(OURS, 4, 1, wrong="lost")]
    made += [run(STDLIB, 1, 5), run(STDLIB, 2, 10), run(STDLIB, 3, 100), run(STDLIB, 4, 100)]
    assert 3 == ratio(made, OURS, STDLIB)
    assert ratio(made, OURS, ANYIO) is None


@pytest.mark.parametrize(("threads", "met"), [(1, True), (8, False)])
def test_half_is_promised_under_load_only(threads: int, met: bool) -> None:
    made = [run(OURS, 1, 8, threads=threads), run(STDLIB, 1, 10, threads=threads)]
    beside_stdlib, beside_anyio = targets(made, "asyncio", 1, threads)
    assert met == beside_stdlib.met
    assert beside_anyio.measured is None


@pytest.mark.parametrize("way", WAYS)
def test_each_candidate_responds(way: str) -> None:
    async def one() -> int:
        return 1

    with WAYS[way](asyncio.new_event_loop) as call:
        assert 3 == sum(call(one) for _ in range(3))
