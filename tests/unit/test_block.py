"""A block of lines on a terminal, which may be resized between any two draws."""

from functools import cache

from hypothesis import given, settings, strategies as st

from headgate import Snapshot
from headgate.jobs._display import Block, Live
from headgate.jobs._events import Event
from support.figures import snapshot_json
from support.screen import Screen

HEADER = "$ headgate fetch urls.txt"


def snapshot(**changes: object) -> Snapshot:
    return Snapshot.from_json(snapshot_json(**changes))


@cache
def drawn_at(columns: int) -> list[str]:
    """Returns the block on a terminal that always had this width."""
    screen = Screen(columns)
    with Live(Block(screen.console)) as live:
        live.update(snapshot())
        return screen.shown()


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(20, 130), min_size=1, max_size=6))
def test_resizing_leaves_no_stale_line_and_takes_none_away(widths: list[int]) -> None:
    screen = Screen(100)
    screen.write(f"{HEADER}\n")
    with Live(Block(screen.console)) as live:
        live.update(snapshot())
        for columns in widths:
            screen.resize(columns)
            live.update(snapshot())
            assert HEADER == "".join(screen.shown())[: len(HEADER)]
            assert drawn_at(columns) == screen.shown()[-len(drawn_at(columns)) :]
            assert -(-len(HEADER) // columns) + len(drawn_at(columns)) == len(screen.shown())
        screen.resize(100)
    assert [HEADER] == screen.shown()


@settings(max_examples=15, deadline=None)
@given(st.integers(20, 130))
def test_a_message_stays_above_the_block_whatever_the_width_has_become(columns: int) -> None:
    screen = Screen(100)
    with Live(Block(screen.console)) as live:
        live.update(snapshot())
        screen.resize(columns)
        live.say(Event(name="stop", message="stopping", is_shown=True))
        live.update(snapshot())
        assert ["stopping", *drawn_at(columns)] == screen.shown()
    assert ["stopping"] == screen.shown()


def test_a_block_that_becomes_shorter_leaves_nothing_below() -> None:
    screen = Screen(60)
    with Live(Block(screen.console)) as live:
        live.update(snapshot(bottleneck={"kind": "input", "text": "bottleneck: input. " + "a long story " * 20}))
        live.update(snapshot())
        assert drawn_at(60) == screen.shown()


def test_a_block_is_never_higher_than_the_screen() -> None:
    screen = Screen(100)
    screen.console.height = 4
    with Live(Block(screen.console)) as live:
        live.update(snapshot())
        assert 3 == len(screen.shown())


def test_the_time_left_and_the_latency_are_shown_at_any_width() -> None:
    for columns in (30, 40, 60, 69, 70, 75, 80, 100):
        shown = " ".join(drawn_at(columns))
        for fact in ("37,412 of 100,000 rows (37 %)", "2.1 s left", "p50 8.1 ms, p99 21 ms", "10"):
            assert fact in shown, columns
        assert max(map(len, drawn_at(columns))) < columns


def test_figures_are_side_by_side_if_they_fit() -> None:
    assert "256 of 256" in " ".join(drawn_at(70))
