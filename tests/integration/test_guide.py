"""Every program of the guide runs, and prints what the guide shows."""

import re
from pathlib import Path

import pytest

from support.documents import Example, examples, text
from support.run import printed_by

GUIDE = examples("docs/many-tasks.md")


@pytest.mark.parametrize("example", GUIDE, ids=[example.heading for example in GUIDE])
def test_the_example_prints_what_the_guide_shows(example: Example, tmp_path: Path) -> None:
    assert example.output == printed_by(example.code, tmp_path)


def test_every_recipe_has_an_example() -> None:
    recipes = text("docs/many-tasks.md").partition("## Recipes\n")[2].partition("\n## ")[0]
    headings = set(re.findall(r"^### (.*)$", recipes, re.MULTILINE))
    assert 10 == len(headings)
    assert set() == headings - {example.heading for example in GUIDE}
