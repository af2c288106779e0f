import io
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from headgate.cli._parser import CommandLineError
from headgate.cli.show import print_table

NAMES = ["row", "url", "method", "status", "error", "error_message", "body", "body_bytes", "elapsed_us", "id"]
ROWS: list[list[str | None]] = [
    ["0", "http://127.0.0.1:8080/1", "GET", "200", None, None, "Hello, World!", "13", "812", "a"],
    ["1", "http://127.0.0.1:8080/2", "GET", None, "timeout", "no answer within 30 s", None, "0", "30000000", "b"],
]


def shown(
    *, width: int, rows: Sequence[Sequence[str | None]] = ROWS, total: int | None = 100_000, columns: str | None = None
) -> list[str]:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        print_table(console, NAMES, rows, total, None if columns is None else columns.split(","))
    return [line.rstrip() for line in capture.get().splitlines()]


def test_the_most_useful_columns_are_shown_in_their_own_order() -> None:
    assert shown(width=80) == [
        "row  url                      status  error    body_bytes  elapsed_us  id",
        "─────────────────────────────────────────────────────────────────────────",
        "  0  http://127.0.0.1:8080/1     200  -                13         812  a",
        "  1  http://127.0.0.1:8080/2       -  timeout           0    30000000  b",
        "2 of 100,000 rows; also there, with --columns: method, error_message, body",
    ]


def test_columns_of_the_input_and_of_answers_come_before_what_is_seldom_looked_at() -> None:
    names = ["row", "url", "status", "body", "body_encoding", "body_truncated", "redirects", "answer", "id"]
    row = ["0", "http://127.0.0.1:8080/1", "200", "Hello, World!", "identity", "false", "302 http://b/", "blue", "7"]
    console = Console(file=io.StringIO(), width=60, color_system=None)
    with console.capture() as capture:
        print_table(console, names, [row], 1, None)
    assert capture.get().split("\n")[0].split() == ["row", "url", "status", "answer", "id"]


def test_everything_is_shown_where_there_is_room() -> None:
    header, *_, closing = shown(width=200)
    assert NAMES == header.split()
    assert closing == "2 of 100,000 rows"


def test_asked_for_columns_come_in_the_order_asked_for() -> None:
    lines = shown(width=80, columns="id, row")
    assert ["id", "row"] == lines[0].split()
    assert lines[2:4] == ["a     0", "b     1"]


def test_an_unknown_column_is_answered_with_those_there_are() -> None:
    with pytest.raises(CommandLineError) as raised:
        shown(width=80, columns="row,boddy")
    assert "error: --columns: there is no column 'boddy'; there are row, url, method, status, error" in str(
        raised.value
    )


def test_columns_without_a_value_are_left_out() -> None:
    header, *_, closing = shown(width=200, rows=ROWS[:1])
    assert "error" not in header
    assert closing == "1 of 100,000 rows; also there, with --columns: error, error_message"


@pytest.mark.parametrize(
    ("expected", "rows", "total"),
    [
        ("all 2 rows", ROWS, 2),
        ("1 row", ROWS[:1], 1),
        ("no rows", [], 0),
        ("1 of 2 rows", ROWS[:1], 2),
        ("the first 2 rows", ROWS, None),
        ("the first row", ROWS[:1], None),
    ],
)
def test_it_says_how_many_rows_there_are(
    expected: str, rows: Sequence[Sequence[str | None]], total: int | None
) -> None:
    assert expected == shown(width=200, rows=rows, total=total)[-1].partition(";")[0]


def test_what_stands_below_the_table_is_broken_between_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((30, 24)))
    with (tmp_path / "terminal").open("w+") as stream:
        print_table(Console(file=stream, width=30), NAMES, ROWS, 2, ["row"])
        stream.seek(0)
        closing = stream.read().partition("all 2 rows;")[2]
    words = {word.strip(",") for word in closing.split()}
    assert set(NAMES) - {"row"} <= words
    assert max(map(len, closing.splitlines())) <= 30


@pytest.mark.parametrize("width", [40, 30])
def test_what_became_of_which_url_is_shown_on_the_narrowest_terminal(width: int) -> None:
    header, *lines, _closing = shown(width=width)
    assert ["row", "url", "status", "error"] == header.split()
    assert max(len(line) for line in lines) <= width


def test_no_line_is_wider_than_the_terminal() -> None:
    wide: list[list[str | None]] = [
        [str(index), "http://example.com/" + "a" * 300, *["x" * 50] * 8] for index in range(3)
    ]
    *table, _closing = shown(width=80, rows=wide)
    assert max(len(line) for line in table) <= 80
    assert "…" in table[2]


def test_what_a_server_sent_cannot_steer_the_terminal() -> None:
    hostile = [[*ROWS[0][:6], "\x1b[2Jline\nline", *ROWS[0][7:]]]
    lines = shown(width=200, rows=hostile)
    assert r"\x1b[2Jline\nline" in lines[2]
