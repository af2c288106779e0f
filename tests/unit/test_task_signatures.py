"""Signature, help, types and guide agree on each option of the functions for many tasks."""

import inspect
import re
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import headgate
from support.documents import tables
from support.virtual_clock import run_on_virtual_clock

REQUIRED = inspect.Parameter.empty
CALLS = {
    "max_failures": None,
    "timeout": None,
    "retry": None,
    "rate": None,
    "cost": None,
    "key": None,
    "per_key": None,
    "source_in_thread": False,
}
RESULTS = {"buffer": None, "ordered": False, "window": None}
DEFAULTS: dict[str, dict[str, object]] = {
    "amap": {"limit": REQUIRED, **RESULTS, "errors": "raise", **CALLS},
    "map": {"limit": REQUIRED, **RESULTS, "errors": "raise", **CALLS, "loop_factory": None},
    "for_each": {"limit": REQUIRED, "errors": "raise", **CALLS},
    "as_completed": {"limit": REQUIRED, "buffer": None, "timeout": None},
    "gather": {"limit": REQUIRED, "return_exceptions": False},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_signature_lists_every_option_with_its_default(name: str) -> None:
    shown = inspect.signature(getattr(headgate, name)).parameters.values()
    by_name = {each.name: each.default for each in shown if each.kind is inspect.Parameter.KEYWORD_ONLY}
    assert list(DEFAULTS[name].items()) == list(by_name.items())


def test_the_signature_shows_the_type_of_each_option() -> None:
    shown = list(inspect.signature(headgate.gather).parameters.values())[1:]
    assert ["limit: int", "return_exceptions: bool = False"] == [str(each) for each in shown]
    errors = inspect.signature(headgate.amap).parameters["errors"]
    assert "errors: Literal['raise', 'yield', 'skip'] = 'raise'" == str(errors).replace("typing.", "")


def help_of(name: str) -> dict[str, str]:
    """Returns the paragraph about each option in the help of a function."""
    text = inspect.getdoc(getattr(headgate, name)) or ""
    arguments = text.partition("\nArgs:\n")[2].partition("\n\n")[0]
    found = re.findall(r"^    (\w+): (.*(?:\n {8}.*)*)", arguments, re.MULTILINE)
    return {option: " ".join(paragraph.split()) for option, paragraph in found}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_help_explains_every_option_and_names_its_default(name: str) -> None:
    paragraphs = help_of(name)
    assert list(DEFAULTS[name]) == [option for option in paragraphs if option in DEFAULTS[name]]
    for option, default in DEFAULTS[name].items():
        assert (default is not REQUIRED) == (re.search(r" Defaults to .+\.$", paragraphs[option]) is not None)
        assert len(paragraphs[option].partition(" Defaults to ")[0]) > 20
    assert "**options" not in (getattr(headgate, name).__doc__ or "")


def options_of(function: Any) -> Iterator[Any]:
    """Yields the types from which type checkers read the options of a function, one for each overload."""
    for variant in typing.get_overloads(function) or [function]:
        (options,) = typing.get_args(variant.__annotations__["options"])
        yield typing.get_origin(options) or options


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_type_checker_asks_for_those_options_that_have_no_default(name: str) -> None:
    without_default = {option for option, default in DEFAULTS[name].items() if default is REQUIRED}
    for options in options_of(getattr(headgate, name)):
        assert without_default == options.__required_keys__


@pytest.mark.parametrize(
    ("name", "in_the_signature"), [("amap", {"errors"}), ("map", {"errors"}), ("gather", {"return_exceptions"})]
)
def test_the_types_of_results_depend_on_one_option_alone(name: str, in_the_signature: set[str]) -> None:
    variants = list(options_of(getattr(headgate, name)))
    assert len(variants) > 1
    for options in variants:
        assert DEFAULTS[name].keys() == in_the_signature | typing.get_type_hints(options).keys()


@pytest.mark.parametrize("name", DEFAULTS)
def test_an_unknown_option_is_refused_with_the_nearest_one_and_a_missing_one_is_named(name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected .* 'limits': did you mean limit\?$"):
        used(name, limits=3)
    with pytest.raises(TypeError, match=rf"^{name}\(\) is missing a keyword argument: 'limit'$"):
        used(name)


def used(name: str, **options: Any) -> None:
    arguments: dict[str, tuple[Any, ...]] = {"gather": (), "as_completed": ([],)}
    made = getattr(headgate, name)(*arguments.get(name, (print, [])), **options)
    if inspect.iscoroutine(made):
        run_on_virtual_clock(made)


def test_the_guide_lists_every_option_of_amap_with_its_default() -> None:
    (rows,) = (table for table in tables("docs/many-tasks-reference.md") if table[0][:2] == ["option", "default"])
    paragraphs = help_of("amap")
    by_name = {
        f"`{option}`": "required"
        if default is REQUIRED
        else paragraphs[option].rpartition(" Defaults to ")[2].removesuffix(".")
        for option, default in DEFAULTS["amap"].items()
    }
    in_guide = {name: row[1] for row in rows[1:] for name in row[0].split(", ")}
    assert {name: default.replace("'", '"') for name, default in by_name.items()} == in_guide
