"""`headgate show` prints the first rows of results as a table that fits the terminal."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headgate import cli
from headgate.cli.show import with_causes
from support import command
from support.terminal import printed_on_terminal

Row = Mapping[str, Any]
Show = Callable[..., list[str]]

NAMES = ["row", "url", "method", "status", "error", "error_message", "body", "received_bytes", "elapsed_us", "id"]
ROWS: list[Row] = [
    dict(zip(NAMES, values, strict=True))
    for values in (
        [0, "http://127.0.0.1:8080/1", "GET", 200, None, None, "Hello, World!", 13, 812, "a"],
        [1, "http://127.0.0.1:8080/2", "GET", None, "timeout", "no response came in time", None, 0, 30_000_000, "b"],
    )
]


def write(file: Path, rows: Sequence[Row]) -> None:
    """Writes rows of results as Parquet or NDJSON, by the name of the file."""
    if file.suffix == ".parquet":
        typed = [*ROWS, *rows]  # the first rows decide the types of the columns
        names = dict.fromkeys(name for row in typed for name in row)
        columns = {name: [row.get(name) for row in typed] for name in names}
        pq.write_table(pa.table(columns).slice(len(ROWS)), file)
    else:
        file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Show:
    """Writes rows, shows the first of them at a width, and returns the lines."""

    def show(*flags: str, width: int, rows: Sequence[Row] = ROWS, name: str = "part.parquet") -> list[str]:
        monkeypatch.setenv("COLUMNS", str(width))
        write(tmp_path / name, rows)
        assert 0 == cli.run(["show", str(tmp_path / name), *flags])
        return [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    return show


def test_the_most_useful_columns_are_shown_in_their_own_order(shown: Show) -> None:
    assert shown("-n", "2", width=80, rows=[*ROWS, *ROWS[:1] * 99_998]) == [
        "row  url                      status  error    received_bytes  elapsed_us  id",
        "─────────────────────────────────────────────────────────────────────────────",
        "  0  http://127.0.0.1:8080/1     200  -                    13         812  a",
        "  1  http://127.0.0.1:8080/2       -  timeout               0    30000000  b",
        "2 of 100,000 rows; also there, with --columns: method, error_message, body",
    ]


def test_columns_of_the_input_and_of_selected_values_come_before_those_that_are_seldom_needed(shown: Show) -> None:
    row = {"row": 0, "url": "http://127.0.0.1:8080/1", "status": 200, "body": "Hello, World!"}
    row |= {"body_encoding": "identity", "body_truncated": False, "redirects": "302 http://b/", "color": "blue"}
    header, *_ = shown(width=60, rows=[row | {"id": "7"}], name="part.ndjson")
    assert ["row", "url", "status", "color", "id"] == header.split()


def test_all_columns_are_shown_if_they_fit(shown: Show) -> None:
    header, *_, closing = shown(width=200)
    assert NAMES == header.split()
    assert closing == "all 2 rows"


def test_a_row_that_failed_because_of_its_status_is_shown_with_it_as_in_a_summary() -> None:
    names = ["row", "status", "error", "body"]
    failed = [["0", None, "timeout", None], ["1", "503", None, "-"], ["2", "200", "decode", None]]
    assert ["timeout", "status:503", "decode"] == [row[2] for row in with_causes(names, failed)]
    assert [[*row[:2], row[3]] for row in failed] == [[*row[:2], row[3]] for row in with_causes(names, failed)]
    assert failed == with_causes(["row", "status", "outcome", "body"], failed)


def test_columns_come_in_the_order_in_which_the_user_names_them(shown: Show) -> None:
    lines = shown("--columns", "id, row", width=80)
    assert ["id", "row"] == lines[0].split()
    assert lines[2:4] == ["a     0", "b     1"]


def test_an_unknown_column_is_refused_with_the_columns_that_exist(tmp_path: Path) -> None:
    write(tmp_path / "part.parquet", ROWS)
    (message,) = command.mistakes("show", str(tmp_path / "part.parquet"), "--columns", "row,boddy")
    assert "--columns: there is no column 'boddy'; there are row, url, method, status, error" in message


def test_columns_without_a_value_are_left_out(shown: Show) -> None:
    header, *_, closing = shown(width=200, rows=ROWS[:1])
    assert "error" not in header
    assert closing == "1 row; also there, with --columns: error, error_message"


@pytest.mark.parametrize(
    ("expected", "limit", "rows", "name"),
    [
        ("all 2 rows", 2, ROWS, "part.parquet"),
        ("all 2 rows", 2, ROWS, "part.ndjson"),
        ("1 row", 1, ROWS[:1], "part.parquet"),
        ("no rows", 1, [], "part.parquet"),
        ("1 of 2 rows", 1, ROWS, "part.parquet"),
        ("the first 2 rows", 2, [*ROWS, *ROWS], "part.ndjson"),
        ("the first row", 1, ROWS, "part.ndjson"),
    ],
)
def test_the_last_line_says_how_many_rows_there_are(
    expected: str, limit: int, rows: Sequence[Row], name: str, shown: Show
) -> None:
    assert expected == shown("-n", str(limit), width=200, rows=rows, name=name)[-1].partition(";")[0]


def test_the_line_below_the_table_is_broken_between_words(tmp_path: Path) -> None:
    write(tmp_path / "part.parquet", ROWS)
    printed = printed_on_terminal("show", str(tmp_path / "part.parquet"), "--columns", "row", columns=30)
    closing = printed.partition("all 2 rows;")[2]
    words = {word.strip(",") for word in closing.split()}
    assert set(NAMES) - {"row"} <= words
    assert max(map(len, closing.splitlines())) <= 30


@pytest.mark.parametrize("width", [40, 30])
def test_the_outcome_of_each_url_is_shown_on_the_narrowest_terminal(width: int, shown: Show) -> None:
    header, *lines, _closing = shown(width=width)
    assert ["row", "url", "status", "error"] == header.split()
    assert max(len(line) for line in lines) <= width


def test_no_line_is_wider_than_the_terminal(shown: Show) -> None:
    names = ["method", "error", "error_message", "body", "id"]
    wide = [{"row": 0, "url": f"http://example.com/{'a' * 300}"} | dict.fromkeys(names, "x" * 50)] * 3
    *table, _closing = shown(width=80, rows=wide)
    assert max(len(line) for line in table) <= 80
    assert "…" in table[2]


@pytest.mark.parametrize("name", ["part.parquet", "part.ndjson"])
def test_text_of_a_server_cannot_steer_the_terminal(name: str, shown: Show) -> None:
    lines = shown(width=200, rows=[{**ROWS[0], "body": "\x1b[2Jline\nline", "a\x1b[2J": 1}], name=name)
    assert r"\u{1b}[2Jline\nline" in lines[2]
    assert r"a\x1b[2J" in lines[0]
    assert "\x1b" not in "".join(lines)
