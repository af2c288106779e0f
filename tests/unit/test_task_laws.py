"""Laws that hold for every map of tasks, whatever happens to it."""

from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st

from support.future_scenarios import FuturePlan, broken_future_promises
from support.scenarios import LONG_S, Item, MapPlan, Scenario, broken_promises


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


# Whole seconds, so that much happens at the same time.
MOMENTS = st.integers(0, 12).map(float)


@st.composite
def map_plans(draw: st.DrawFn) -> MapPlan:
    has_failures, has_cleanup = draw(st.booleans()), draw(st.booleans())
    timeout = draw(st.sampled_from([None, None, 0.5, 1.5]))
    items = tuple(
        Item(
            index,
            turns=draw(st.integers(0, 2)),
            seconds=draw(st.sampled_from([0, 0, 1, 2, 5])),
            failures=draw(st.sampled_from([0, 0, 1, 2])) if has_failures else 0,
            is_stray=draw(st.booleans()),
            key=draw(st.integers(0, 2)),
            cost=draw(st.integers(1, 4)),
            cleanup_s=draw(st.sampled_from([0, 0, 1])) if has_cleanup else 0,
            when_cancelled=draw(st.sampled_from(["raise", "return", "fail"]))
            if has_cleanup and not timeout
            else "raise",
        )
        for index in range(draw(st.integers(0, 14)))
    )
    ordered = draw(st.booleans())
    window = draw(maybe(st.integers(0, 5))) if ordered else None
    errors = draw(st.sampled_from(["raise", "yield", "skip"]))
    has_rate = draw(st.booleans())
    # What began together may have been granted one after the other; and a call may end though its time is up, because
    # the time of both came while the source blocked.
    may_block = not has_rate and all(item.seconds < (timeout or LONG_S) for item in items)
    return MapPlan(
        items=items,
        limit=draw(st.integers(1, 5)),
        is_shared=draw(st.booleans()),
        buffer=draw(maybe(st.integers(0, 4))) if window is None else None,
        ordered=ordered,
        window=window,
        errors=errors,
        max_failures=draw(maybe(st.integers(0, 3))) if errors != "raise" else None,
        timeout=timeout,
        attempts=draw(maybe(st.integers(1, 3))),
        backoff_s=draw(st.integers(0, 3)),
        has_rate=has_rate,
        has_cost=has_rate and draw(st.booleans()),
        per_key=draw(maybe(st.integers(1, 2))),
        is_async=draw(st.booleans()),
        source_wait_s=tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))),
        source_blocks_s=tuple(draw(st.lists(st.sampled_from([0.0, 0.003, 0.02, 2.0]), min_size=1, max_size=4)))
        if may_block
        else (0.0,),
        source_fails=draw(st.sampled_from([False, False, True])),
        slow_s=draw(st.sampled_from([None, None, 0, 1, 4])),
        in_block=draw(st.booleans()),
        leave_at=draw(maybe(st.integers(1, 6))),
        leave_by_error=draw(st.booleans()),
        cancel_at_s=draw(maybe(MOMENTS)),
        cancel_turns=draw(st.integers(1, 4)),
        cancel_again_at_s=draw(maybe(MOMENTS)),
        stop_at_s=draw(maybe(MOMENTS)),
        stop_by=draw(st.sampled_from([None, None, "function", "source", "key", "cost"])),
        stop_at=draw(st.integers(0, 8)),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    maps = draw(st.lists(map_plans(), min_size=1, max_size=2))
    if len(maps) > 1:  # the rate and the timeouts of one map do not know that the source of another blocks
        maps = [replace(plan, source_blocks_s=(0.0,)) for plan in maps]
    return Scenario(
        maps=tuple(maps),
        shared_limit=draw(st.integers(1, 4)),
        resizes=tuple(draw(st.lists(st.tuples(MOMENTS, st.integers(1, 5)), max_size=2))),
        rate=(draw(st.sampled_from([0.5, 1.0, 10.0])), 4.0),
    )


@st.composite
def future_plans(draw: st.DrawFn) -> FuturePlan:
    is_async, is_list = draw(st.sampled_from([(False, False), (False, True), (True, False)]))
    has_failures = draw(st.booleans())
    items = tuple(
        Item(
            index,
            turns=draw(st.integers(0, 2)),
            seconds=draw(st.sampled_from([0, 0, 1, 2, 5])),
            failures=draw(st.integers(0, 1)) if has_failures else 0,
            cleanup_s=draw(st.sampled_from([0, 0, 1])),
        )
        for index in range(draw(st.integers(0, 12)))
    )
    return FuturePlan(
        items=items,
        limit=draw(st.integers(1, 5)),
        buffer=draw(maybe(st.integers(0, 4))),
        timeout=draw(maybe(st.integers(1, 8).map(float))),
        is_async=is_async,
        is_list=is_list,
        has_futures=draw(st.booleans()),
        source_waits=draw(st.booleans()),
        source_fails=draw(st.booleans()),
        plain_for=not is_async and draw(st.booleans()),
        slow_s=draw(st.sampled_from([None, None, 0, 1, 4])),
        in_block=draw(st.booleans()),
        leave_at=draw(maybe(st.integers(1, 6))),
        leave_by_error=draw(st.booleans()),
        cancel_at_s=draw(maybe(MOMENTS)),
    )


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scenarios())
def test_every_promise_of_a_map_holds_whatever_happens_to_it(scenario: Scenario) -> None:
    assert [] == broken_promises(scenario)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(future_plans())
def test_every_promise_of_as_completed_holds_whatever_happens_to_it(plan: FuturePlan) -> None:
    assert [] == broken_future_promises(plan)
