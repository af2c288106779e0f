"""Each command and each program on the pages for users prints what its page shows, in the order of the page."""

import re
from pathlib import Path

import pyarrow as pa
import pytest

from support.console import Console, shape
from support.documents import PAGES, Command, steps, table as documented
from support.results import table
from support.run import headgate

GUIDE = "docs/many-tasks.md"
"""Its programs are independent of each other, and tested one by one."""

WITH_SERVERS = {"docs/programs.md", "docs/examples.md", "docs/coming-from.md", "docs/paid-apis.md"}
"""These pages have servers and tests of their own."""


@pytest.mark.parametrize("page", [page for page in PAGES if page not in {GUIDE, *WITH_SERVERS} and steps(page)])
def test_every_step_of_the_page_prints_what_it_shows(page: str, server: str, tmp_path: Path) -> None:
    console = Console(tmp_path, server)
    for step in steps(page):
        shown, printed = console.take(step)
        assert shown == printed, step


def test_the_pages_with_steps_are_known() -> None:
    pages = {
        f"docs/{name}.md"
        for name in (
            "fetch",
            "python",
            "results",
            "durability",
            "servers",
            "tables",
            "portal",
            "client",
            "batches",
            "testing",
            "clusters",
        )
    }
    assert {"README.md", GUIDE, *WITH_SERVERS} | pages == {page for page in PAGES if steps(page)}


def test_a_command_that_prints_something_else_is_noticed(server: str, tmp_path: Path) -> None:
    shown, printed = Console(tmp_path, server).take(Command("", "echo 1 row", "1 rows\n"))
    assert shown != printed


def test_figures_units_and_bottlenecks_are_no_difference() -> None:
    shown = "done: 10,000 rows in 18 s\n  latency  p50 1.51 s\nbottleneck: memory. 3\n"
    assert shape(shown) == shape("done: 5 rows in 0.1 s\n  latency     p50 798 µs\nbottleneck: concurrency. 5 of 6\n")


def test_the_columns_are_those_of_the_results_page(server: str, tmp_path: Path) -> None:
    headgate("fetch", f"{server}/[1-2]", "-o", tmp_path / "out", check=0)
    expected = [
        (name.strip("`"), kind.partition("`, ")[0].strip("`"), kind.endswith(", null"))
        for name, kind, *_ in documented("docs/results.md", "column", "type")
    ]
    assert expected == [(field.name, type_name(field.type), field.nullable) for field in table(tmp_path / "out").schema]


def type_name(kind: pa.DataType) -> str:
    """Returns a type as arrow writes it, without the name and the nullability of list items."""
    return re.sub(r"(item|element): | not null", "", str(kind))
