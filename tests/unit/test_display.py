import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rich.console import Console

from headgate import Snapshot
from headgate.jobs import _display
from headgate.jobs._events import Event
from support.figures import snapshot_json
from support.terminal import Terminal


def snapshot(**changes: object) -> Snapshot:
    return Snapshot.from_json(snapshot_json(**changes))


def drawn(width: int = 80, **changes: object) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=True, legacy_windows=False)
    with console.capture() as capture:
        console.print(_display.progress_block(snapshot(**changes)))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_block_shows_how_far_it_is_and_names_the_bottleneck() -> None:
    assert drawn(width=120) == [
        "37,412 of 100,000 rows (37 %)  ━━━━━━━━╸                 1.2 s  2.1 s left",
        "requests/s  31,204 now, 30,113 mean     in flight  256 of 256",
        "succeeded   37,402                      failed     10",
        "latency     p50 8.1 ms, p99 21 ms       received   1.2 MiB",
        snapshot().bottleneck.text,
    ]


def test_the_block_fits_into_80_columns_whatever_the_figures() -> None:
    lines = drawn(
        rows=987_654_321,
        rows_known=1_000_000_000,
        fraction=0.98,
        requests_per_s=1_234_567.0,
        requests_per_s_mean=1_234_567.0,
        in_flight=100_000,
        concurrency=100_000,
        stopping=True,
        succeeded=987_000_000,
        failed=654_321,
        p50_us=12_345_678,
        p99_us=29_999_999,
        received_bytes=10**15,
        elapsed_s=86_400 * 3.2,
        time_left_s=86_400 * 30.0,
    )
    assert max(len(line) for line in lines) <= 80
    shown = "\n".join(lines)
    for fact in (
        "987,654,321 of 1,000,000,000 rows (98 %)",
        "3 d 04 h",
        "stopping",
        "1,234,567 now, 1,234,567 mean",
        "100,000 of 100,000",
        "654,321",
    ):
        assert fact in shown


def test_rows_of_earlier_runs_are_done_too() -> None:
    assert drawn(width=120, rows=200, rows_before=37_212)[0].startswith("37,412 of 100,000 rows (37 %)  ━")
    assert "37,412 rows so far" in _display.progress_line(snapshot(rows=200, rows_before=37_212, rows_known=None))


def test_a_narrow_terminal_gets_what_matters_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    shown = {}
    for columns in (40, 69, 70):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream = Terminal()
        with _display.display_for(stream, show=True) as display:
            display.update(snapshot())
        shown[columns] = plain(stream.getvalue())
    assert shown[40][:8] == [
        "37,412 of 100,000 rows (37 %)",
        "1.2 s, 2.1 s left",
        "31,204 requests/s, 256 in flight",
        "latency p50 8.1 ms, p99 21 ms",
        "10 failed",
        "bottleneck: concurrency. 256 requests",
        "in flight at a mean of 8.1 ms allow",
        "31,605 requests/s; raise --concurrency",
    ]
    assert "256 in flight" in shown[69][2]
    assert "256 of 256" in shown[70][1]


def test_the_slowest_host_is_named_where_the_time_left_is_that_of_its_rows() -> None:
    slow: dict[str, Any] = {"time_left_s": 35.0, "slowest_host": {"host": "shop.example", "rows": 26, "in_flight": 2}}
    named = "slowest host: shop.example has 26 rows at 2 in flight"
    assert f" left, {named}; bottleneck:" in _display.progress_line(snapshot(**slow))
    assert named in drawn(**slow)


def test_unknown_figures_are_left_out() -> None:
    assert drawn(rows_known=None, fraction=None, time_left_s=None)[0] == "37,412 rows so far  1.2 s"


def test_before_anything_has_ended_there_is_no_latency() -> None:
    assert drawn(p50_us=0, p99_us=0)[3].startswith("latency     p50 -, p99 -  ")


def test_a_share_of_bytes_is_shown_where_the_rows_are_not_known() -> None:
    assert drawn(rows_known=None, time_left_s=None)[0] == "37,412 rows so far (37 %)  ━━━━━━━━╸                 1.2 s"


def test_a_line_holds_the_same_facts() -> None:
    assert _display.progress_line(snapshot(stopping=True)) == (
        "1.2 s: 37,412 of 100,000 rows (37 %), 31,204 requests/s now, 30,113 mean, 256 in flight, 37,402 succeeded, "
        "10 failed, p50 8.1 ms, p99 21 ms, 1.2 MiB, stopping; "
        f"{snapshot().bottleneck.text}"
    )


def plain(text: str) -> list[str]:
    """Returns the lines of a text, each as often as it was drawn, without control sequences."""
    lines = [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").splitlines()]
    return [line for line in lines if line]


def clock(*times: float) -> Callable[[], float]:
    moments: Iterator[float] = iter(times)
    return lambda: next(moments)


def test_lines_come_every_ten_seconds() -> None:
    stream = io.StringIO()
    lines = _display.Lines(stream, clock=clock(0, 9.9, 10, 10, 19.9, 20.1, 20.1))
    written = []
    for _ in range(4):
        lines.update(snapshot())
        written.append(len(stream.getvalue().splitlines()))
    assert written == [0, 1, 1, 2]


@pytest.mark.parametrize(
    ("expected", "stream", "show"),
    [
        (_display.Display, io.StringIO(), None),
        (_display.Display, Terminal(), False),
        (_display.Lines, io.StringIO(), True),
        (_display.Live, Terminal(), None),
        (_display.Live, Terminal(), True),
    ],
)
def test_the_display_suits_the_stream(
    expected: type, stream: io.StringIO, show: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert expected is type(_display.display_for(stream, show=show))


def test_a_block_never_erases_rows_that_go_to_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    assert _display.Lines is type(_display.display_for(Terminal(), show=True, output="-"))
    assert _display.Live is type(_display.display_for(Terminal(), show=True, output="results"))


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert _display.Lines is type(_display.display_for(Terminal()))


def test_the_live_block_goes_and_messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    stream = Terminal()
    with _display.display_for(stream, show=True) as display:
        display.update(snapshot())
        display.say(Event(name="stop", message="stopping: [soon]", is_shown=True))
        display.say(Event(name="commit", message="commit 1"))
    text = stream.getvalue()
    assert "stopping: [soon]" in text
    assert "commit" not in text, "the block has the figures"
    assert text.endswith("\x1b[2K\r\x1b[5A\x1b[?25h"), "the last thing it does is to erase its lines"
