"""The examples in docstrings print what they show."""

import asyncio
import inspect
import re
import textwrap
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

import headgate
import headgate.ray
import headgate.spark
from support.docstrings import members, public, typed_in
from support.virtual_clock import run_on_virtual_clock


async def fetch(url: str) -> str:
    await asyncio.sleep(len(url))
    return f"page of {url}"


async def nothing(*_: object) -> None:
    pass


class Coroutines:
    """Yields new ones in each iteration."""

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
"""Names that the examples use and do not explain."""

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
WITHOUT = {"BatchTable", "RowStream", "__version__"}
"""The first two are classes of the engine, which `fetch_table` and `Job.rows` show. The last one is text."""
WITHIN = {
    "Cookies.bound",
    "Plan.from_json",
    "ConcurrencyLimit.when_granted",
    "Rate.when_granted",
    "Request.native",
    "Snapshot.from_json",
    "testing.Calls.add",
    "testing.Calls.clear",
    "testing.MockResponse.take_pieces",
    "testing.Route.next",
}
"""Members that only files of the package call."""


def example_of(thing: object) -> str | None:
    """Returns the first indented lines of a docstring, if they are code."""
    words = inspect.getdoc(thing) or ""
    found = re.search(r"\n\n((?:    .*\n|\n)*    .*)", words.partition("\nArgs:")[0].partition("\nAttributes:")[0])
    return textwrap.dedent(found[1]) if found else None


EXAMPLES = {
    name: example
    for name in dir(headgate)
    if not typed_in(thing := getattr(headgate, name)) and (example := example_of(thing)) is not None
}


def shown_by(name: str, thing: object) -> str:
    """Returns the code of a docstring that a test executes: indented, or typed at a prompt."""
    return "".join([EXAMPLES.get(name, ""), *(example.source for example in typed_in(thing))])


def test_what_is_here_is_what_has_an_example() -> None:
    assert sorted(PRINTED) == sorted(EXAMPLES)


def test_every_public_name_has_an_example_that_is_executed() -> None:
    assert sorted(WITHOUT) == sorted(name for name, thing in public() if not shown_by(name, thing))


def test_every_function_and_property_of_a_class_is_in_one_of_its_examples() -> None:
    examples = {name: shown_by(name, thing) for name, thing in public()}
    for name, member in members():
        examples[name.rpartition(".")[0]] += shown_by(name, member)
    missing = [
        name
        for name, _ in members()
        for of, _, own in [name.rpartition(".")]
        if of not in WITHOUT and not re.search(rf"\.{own}\b", examples[of])
    ]
    assert sorted(WITHIN) == sorted(missing)


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
def test_an_editor_that_runs_nothing_shows_where_options_are_described(path: Path) -> None:
    source = path.read_text("utf-8")
    named = re.findall(r"\*\*options: .*`help\(headgate\.([\w.]+)\)` describes each with its default\.", source)
    assert source.count(" **options: `") == len(named)
    for name in named:
        assert "Defaults to" in (resolve_name(f"headgate.{name}").__doc__ or "")
