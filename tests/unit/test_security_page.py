"""The page about security names tests that exist."""

import re
from functools import cache
from typing import Final

import pytest

from support.documents import ROOT

PAGE: Final = (ROOT / "docs/security.md").read_text(encoding="utf-8")
ROWS: Final = [line for line in PAGE.partition("## Lessons of other clients")[2].splitlines() if line.startswith("| ")][
    2:
]


@cache
def sources() -> str:
    paths = [*(ROOT / "crates").rglob("*.rs"), *(ROOT / "tests").rglob("test_*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split(" | ")[0].strip("| "))
def test_each_lesson_names_a_test_that_exists(row: str) -> None:
    names = re.findall(r"`(\w+)`", row.rsplit(" | ", maxsplit=1)[-1])
    assert names
    for name in names:
        assert re.search(rf"\b(fn|def) {name}\(", sources()), name


def test_there_are_lessons() -> None:
    assert len(ROWS) > 20
