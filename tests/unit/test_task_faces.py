"""Each option of the functions for many tasks is one entry: all that shows it shows the same."""

import inspect
import typing
from typing import Any

import pytest

import headgate
from headgate._option import REQUIRED, OptionSet
from headgate.tasks._as_completed import AsCompletedOptions
from headgate.tasks._gather import GatherOptions
from headgate.tasks._map import MapOptions
from headgate.tasks._options import AmapOptions, ForEachOptions
from support.documents import tables
from support.virtual_clock import run_on_virtual_clock

CALLS = {
    "max_errors": None,
    "timeout_s": None,
    "retry": None,
    "rate": None,
    "cost": None,
    "key": None,
    "per_key": None,
}
RESULTS = {"buffer": None, "ordered": False, "window": None}
DEFAULTS: dict[str, dict[str, object]] = {
    "amap": {"limit": REQUIRED, **RESULTS, "errors": "raise", **CALLS},
    "map": {"limit": REQUIRED, **RESULTS, "errors": "raise", **CALLS, "loop_factory": None},
    "for_each": {"limit": REQUIRED, "errors": "raise", **CALLS},
    "as_completed": {"limit": REQUIRED, "buffer": None, "timeout": None},
    "gather": {"limit": REQUIRED, "return_exceptions": False},
}
KINDS: dict[str, Any] = {
    "amap": AmapOptions,
    "map": MapOptions,
    "for_each": ForEachOptions,
    "as_completed": AsCompletedOptions,
    "gather": GatherOptions,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_signature_lists_every_option_with_its_default(name: str) -> None:
    shown = inspect.signature(getattr(headgate, name)).parameters.values()
    by_name = {each.name: each.default for each in shown if each.kind is inspect.Parameter.KEYWORD_ONLY}
    assert list(DEFAULTS[name].items()) == list(by_name.items())


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_help_explains_every_option_and_names_its_default(name: str) -> None:
    text = " ".join((inspect.getdoc(getattr(headgate, name)) or "").split())
    for entry in OptionSet(KINDS[name], of=name).entries.values():
        assert f" {entry.name}: {entry.text()}" in text
        if entry.option.default is not REQUIRED:
            assert entry.text().endswith(f"Defaults to {entry.option.shown_default()}.")
    assert "**options" not in text


@pytest.mark.parametrize("kind", KINDS.values())
def test_a_type_checker_asks_for_those_options_that_have_no_default(kind: Any) -> None:
    without_default = {
        entry.name for entry in OptionSet(kind, of="").entries.values() if entry.option.default is REQUIRED
    }
    assert without_default == kind.__required_keys__


def test_the_types_of_results_depend_on_errors_alone() -> None:
    for name, kind in (("amap", AmapOptions), ("map", MapOptions)):
        for variant in typing.get_overloads(getattr(headgate, name)):
            options = typing.get_args(variant.__annotations__["options"])[0]
            taken = typing.get_type_hints(typing.get_origin(options), include_extras=True) | {"errors": None}
            assert typing.get_type_hints(kind, include_extras=True).keys() == taken.keys()


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
    entries = OptionSet(AmapOptions[Any], of="amap").entries.values()
    by_name = {
        f"`{entry.name}`": "required" if entry.option.default is REQUIRED else entry.option.shown_default()
        for entry in entries
    }
    in_guide = {name: row[1] for row in rows[1:] for name in row[0].split(", ")}
    assert {name: default.replace("'", '"') for name, default in by_name.items()} == in_guide
