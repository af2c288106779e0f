"""The examples in docstrings do what they look like."""

import asyncio
import inspect
import re
import textwrap
from collections.abc import Callable, Coroutine, Iterator
from operator import attrgetter
from pathlib import Path
from typing import Any

import pytest

import headgate
from support.virtual_clock import run_on_virtual_clock


async def fetch(url: str) -> str:
    await asyncio.sleep(len(url))
    return f"page of {url}"


async def nothing(*_: object) -> None:
    pass


class Coroutines:
    """New ones each time that they are iterated over."""

    def __iter__(self) -> Iterator[Coroutine[Any, Any, str]]:
        return (fetch(url) for url in ("ccc", "a", "bb"))


AT_HAND: dict[str, object] = {
    "coroutines": Coroutines(),
    "fetch": fetch,
    "print": print,
    "request": nothing,
    "rows": range(3),
    "store": nothing,
    "tokens": 1,
    "url": "a",
    "urls": ["ccc", "a", "bb"],
    "work": nothing,
}
"""What the examples use and do not explain."""

PAGES = ["page of a", "page of bb", "page of ccc"]
PRINTED: dict[str, list[str]] = {
    "ConcurrencyLimit": [],
    "Rate": [],
    "Retry": [],
    "amap": PAGES,
    "as_completed": [*PAGES, *PAGES],
    "for_each": [],
    "gather": [],
    "Portal": ["page of a and page of bb"],
    "map": ["page of "],
}
ELSEWHERE = {
    *("AsyncClient", "Client", "fetch", "fetch_table", "map_batches", "amap_batches", "Job", "plan", "start"),
    "__version__",
}
"""All but the last are run against a server, in the pages' examples; the last one is no more than text."""


def example_of(thing: object) -> str | None:
    """The first lines of a docstring that are set in, if they are code."""
    words = inspect.getdoc(thing) or ""
    found = re.search(r"\n\n((?:    .*\n|\n)*    .*)", words.partition("\nArgs:")[0].partition("\nAttributes:")[0])
    return textwrap.dedent(found[1]) if found else None


EXAMPLES = {
    name: example
    for name in headgate.__all__
    if name not in ELSEWHERE and (example := example_of(getattr(headgate, name))) is not None
}


def test_what_is_here_is_what_has_an_example() -> None:
    assert sorted(PRINTED) == sorted(EXAMPLES)


@pytest.mark.parametrize("name", sorted(set(EXAMPLES) - {"Portal", "map"}))
def test_the_example_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    variables: dict[str, Any] = AT_HAND | {"headgate": headgate} | {key: getattr(headgate, key) for key in PRINTED}
    exec(f"async def example():\n{textwrap.indent(EXAMPLES[name], '    ')}", variables)  # noqa: S102 - it is our own
    example: Callable[[], Coroutine[Any, Any, None]] = variables["example"]
    run_on_virtual_clock(example())
    assert PRINTED[name] == capsys.readouterr().out.splitlines()


def test_the_example_of_map_runs_without_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    urls = ["", "", ""]  # take no time
    exec(EXAMPLES["map"], AT_HAND | {"headgate": headgate, "urls": urls})  # noqa: S102 - it is our own
    assert PRINTED["map"] * len(urls) == capsys.readouterr().out.splitlines()


def test_the_example_of_a_portal_runs_without_a_loop(capsys: pytest.CaptureFixture[str]) -> None:
    async def fetch_at_once(url: str) -> str:
        await asyncio.sleep(0)
        return f"page of {url}"

    exec(EXAMPLES["Portal"], AT_HAND | {"headgate": headgate, "fetch": fetch_at_once})  # noqa: S102 - it is our own
    assert PRINTED["Portal"] == capsys.readouterr().out.splitlines()


PACKAGE = Path(headgate.__file__).parent
WITH_OPTIONS = [path for path in sorted(PACKAGE.rglob("*.py")) if "        **options: " in path.read_text("utf-8")]


@pytest.mark.parametrize("path", WITH_OPTIONS, ids=lambda path: path.stem)
def test_an_editor_that_runs_nothing_is_told_where_options_are_described(path: Path) -> None:
    source = path.read_text("utf-8")
    named = re.findall(r"\*\*options: .*`help\(headgate\.([\w.]+)\)` describes each with its default\.", source)
    assert source.count("        **options: ") == len(named)
    for name in named:
        assert "Defaults to" in (attrgetter(name)(headgate).__doc__ or "")
