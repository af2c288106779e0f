"""`headgate show`: prints the first rows of results, as a table that fits the terminal."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from headgate import _format
from headgate._checks import whole
from headgate.cli._parser import Parser
from headgate.cli._values import CommandLineError
from headgate.cli._wrapping import fitted

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_ROWS: Final = 10
OF_FAILED: Final = ("row", "status", "error", "error_message", "url")
"""Columns that show why rows have failed."""

MAX_ROWS: Final = 1_000_000
"""The rows are in memory."""

_MIN_CELL: Final = 24
_MAX_CELL: Final = 500
_GAP: Final = 2
_NULL: Final = "-"

# The most important columns. Columns of the input and selected ones, which are unknown here, come after the URL.
_FIRST: Final = ("row", "status", "error", "url")
_LATER: Final = (
    "elapsed_us",
    "received_bytes",
    "body",
    "body_base64",
    "error_message",
    "error_detail",
    "final_url",
    "method",
    "attempts",
    "redirects",
    "body_encoding",
    "body_truncated",
)
_ALWAYS: Final = ("row", "status", "url")
_LAST: Final = ("ttfb_us", "started_at", "http_version", "remote_addr", "headers")

_EXAMPLES: Final = """\
examples:
  headgate show results
  headgate show results -n 50 --columns row,status,body
  headgate show results --failed"""

Rows = Sequence[Sequence[str | None]]


def main(arguments: Sequence[str]) -> int:
    """Reads the command line and prints the table."""
    values = parser().read(arguments)
    if values is None:
        return 0
    path, columns = values.argument("path"), values.text("columns")
    if not path:
        values.wrong("path", "is missing: name a directory of results")
    rows = values.whole("rows", DEFAULT_ROWS, whole(0, MAX_ROWS))
    values.check()
    show(path, rows, None if columns is None else columns.split(","), only_failed=values.switch("failed"))
    return 0


def parser() -> Parser:
    """Returns the parser of the verb."""
    made = Parser(
        "show", usage="OUT [flags]", description="Prints the first rows of the results in OUT.", examples=_EXAMPLES
    )
    made.group("what to show")
    made.argument("path", "OUT", "a directory of results, or one of its files")
    made.value("rows", "-n", "--rows", metavar="N", text=f"how many rows (default: {DEFAULT_ROWS})")
    made.value("columns", "--columns", metavar="A,B", text="columns to print (default: what fits the terminal)")
    made.switch("failed", "--failed", text="only rows that failed, and why")
    return made


def show(path: str, rows: int, columns: Sequence[str] | None = None, *, only_failed: bool = False) -> None:
    """Prints the first rows at `path`, by default in the columns that fit or that show why rows have failed."""
    from rich.console import Console  # noqa: PLC0415 - not for the help

    from headgate.jobs._job import preview  # noqa: PLC0415 - as above

    # NDJSON does not have the number of rows; reading one more row shows whether these are all.
    names, cells, total = preview(path, rows + 1, only_failed)
    if only_failed and not cells:
        print("no row has failed")
        return
    if only_failed and columns is None:
        columns = [column for column in OF_FAILED if column in names]
    if total is None and len(cells) <= rows:
        total = len(cells)
    shown = cells[:rows]
    print_table(Console(file=sys.stdout), names, with_causes(names, shown) if only_failed else shown, total, columns)


def with_causes(names: Sequence[str], cells: Rows) -> Rows:
    """Returns failed rows with `error` as in a summary: without an error kind, a row failed because of its status."""
    if not {"error", "status"} <= set(names):
        return cells
    error, status = names.index("error"), names.index("status")
    return [
        [*row[:error], f"status:{row[status]}", *row[error + 1 :]] if row[error] is None and row[status] else row
        for row in cells
    ]


def print_table(
    console: "Console", names: Sequence[str], cells: Rows, total: int | None, columns: Sequence[str] | None
) -> None:
    """Prints rows as a table, as wide as the console at the most."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - not for the help
    from rich.cells import cell_len  # noqa: PLC0415 - as above
    from rich.table import Table  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    texts = [[_cell(value) for value in row] for row in cells]
    titles = [_cell(name) for name in names]
    widths = [max(cell_len(text) for text in column) for column in zip(titles, *texts, strict=True)]
    shown = _fitting(names, cells, widths, console.width) if columns is None else _indexes_of(names, columns)
    if shown:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False, collapse_padding=True)
        max_width = _max_width([widths[index] for index in shown], console.width)
        for index in shown:
            justify: Literal["left", "right"] = "right" if all(_is_number(row[index]) for row in cells) else "left"
            width = min(widths[index], max_width)
            table.add_column(Text(titles[index]), width=width, no_wrap=True, overflow="ellipsis", justify=justify)
        for row in texts:
            table.add_row(*(Text(row[index]) for index in shown))
        console.print(table)
    hidden = [title for index, title in enumerate(titles) if index not in shown]
    closing = fitted(_closing(len(cells), total, hidden), console.file)
    console.print(closing, markup=False, highlight=False, soft_wrap=True)


def _closing(shown: int, total: int | None, hidden: Sequence[str]) -> str:
    """Returns the last line: the number of rows, and the columns that were left out."""
    if total == shown:
        rows = f"all {_format.count(shown)} rows" if shown > 1 else "1 row" if shown else "no rows"
    elif total is None:
        rows = "the first row" if shown == 1 else f"the first {_format.count(shown)} rows"
    else:
        rows = _format.part(shown, total, "row")
    return f"{rows}; also there, with --columns: {', '.join(hidden)}" if hidden else rows


def _indexes_of(names: Sequence[str], columns: Sequence[str]) -> list[int]:
    wanted = [column.strip() for column in columns]
    if unknown := [column for column in wanted if column not in names]:
        known = ", ".join(map(_cell, names))
        mistakes = [f"--columns: there is no column {column!r}; there are {known}" for column in unknown]
        raise CommandLineError(mistakes, see="headgate show --help")
    return [names.index(column) for column in wanted]


def _fitting(names: Sequence[str], cells: Rows, widths: Sequence[int], free: int) -> list[int]:
    """Returns the most useful columns that fit side by side, in their order, without columns that have no values.

    The columns of the URL and of its outcome are always shown, and truncated as far as necessary.
    """
    own = [name for name in names if name not in (*_FIRST, *_LATER, *_LAST)]
    chosen: list[int] = []
    for name in (*_FIRST, *own, *_LATER, *_LAST):
        if name not in names:
            continue
        index = names.index(name)
        empty = all(row[index] is None for row in cells)
        if empty and name not in _ALWAYS:
            continue
        # Cells may be truncated, but not below a useful width.
        needed = max(len(name), min(widths[index], _MIN_CELL)) + _GAP
        if needed <= free or name in (*_ALWAYS, "error"):
            chosen.append(index)
            free -= needed
    return sorted(chosen)


def _max_width(widths: Sequence[int], free: int) -> int:
    """Returns the width to which the widest columns are truncated so that all fit."""
    max_width = max(widths)
    while max_width > 1 and sum(min(width, max_width) + _GAP for width in widths) > free + _GAP:
        max_width -= 1
    return max_width


def _cell(value: str | None) -> str:
    # Only what a terminal could show: a body may have megabytes.
    return _NULL if value is None else _format.printable(value[:_MAX_CELL])


def _is_number(value: str | None) -> bool:
    return value is None or value.lstrip("-").isdigit()
