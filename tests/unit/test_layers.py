"""Imports run downwards only: the order is the one drawn in `headgate/__init__.py`."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import headgate

PACKAGE = Path(headgate.__file__).parent

DATA = {"_summary", "_status", "_options", "_errors", "_format", "_nearest", "_arguments", "_argument_names"}
LIMITS = {"_limits", "_retry"}
TASKS = {"_task_feed", "_task_outcome", "_task_options", "_task_entry", "_task_errors", "_task_flow", "_task_calls"}
MAY_IMPORT: dict[str, set[str]] = {
    "__init__": {
        *("_version", "_summary", "_status", "_errors", "_fetch", "_job"),
        *("_limits", "_retry", "_task_outcome", "_task_map", "_tasks", "_task_forms"),
    },
    "_version": set(),
    "_summary": set(),
    "_status": set(),
    "_format": set(),
    "_nearest": set(),
    "_errors": {"_summary"},
    "_options": {"_version"},
    "_arguments": {"_options", "_errors"},
    "_argument_names": {"_errors"},
    "_display": {"_summary", "_format"},
    "_report": {"_summary", "_format"},
    "_report_status": {"_status", "_format"},
    "_watch": {"_summary"},
    "_native": {"_headgate"},
    "_headgate": {"_options"},
    "_server": {"_native"},
    "_run": {"_native", "_report", "_watch", *DATA},
    "_fetch": {"_display", "_run", *DATA},
    "_job": {"_native", "_display", "_run", *DATA},
    "_line": set(),
    "_concurrency_limit": {"_line"},
    "_rate": {"_line"},
    "_limits": {"_concurrency_limit", "_rate"},
    "_retry": set(),
    "_task_feed": set(),
    "_task_outcome": set(),
    "_task_options": LIMITS,
    "_task_entry": set(),
    "_task_maker": set(),
    "_task_clock": set(),
    "_task_timers": {"_task_clock", "_task_entry"},
    "_task_errors": {"_errors", "_retry"},
    "_task_flow": {"_errors", "_task_clock", "_task_errors", "_task_feed", "_task_maker"},
    "_task_futures": {"_errors", "_task_errors", "_task_feed", "_task_flow"},
    "_task_calls": {
        *("_errors", "_line", "_task_errors", "_task_feed", "_task_options", "_task_outcome", "_task_flow"),
    },
    "_task_paced": {*LIMITS, "_line", "_task_clock", "_task_timers", *TASKS},
    "_task_map": {"_errors", "_task_calls", "_task_flow", "_task_outcome"},
    "_tasks": {*LIMITS, *TASKS, "_task_futures", "_task_paced"},
    "_task_forms": {*LIMITS, *TASKS, "_task_futures", "_task_map", "_tasks"},
}
FACES = {"_run", "_job", "_server"}


def modules() -> list[str]:
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]
    return sorted(path.relative_to(PACKAGE).with_suffix("").as_posix() for path in paths)


def imports_of(module: str) -> Iterator[str]:
    """The modules of ours that a module imports: anywhere in it, for types only or not."""
    path = next(path for path in (PACKAGE / f"{module}.py", PACKAGE / f"{module}.pyi") if path.exists())
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            home = node.module or ""
            names = [f"{home}.{alias.name}" if is_module(f"{home}.{alias.name}") else home for alias in node.names]
        else:
            continue
        yield from (name.removeprefix("headgate.") for name in names if name.startswith("headgate."))


def is_module(name: str) -> bool:
    base = PACKAGE.parent.joinpath(*name.split("."))
    return any(base.with_suffix(suffix).exists() for suffix in (".py", ".pyi")) or base.is_dir()


@pytest.mark.parametrize("module", [module for module in modules() if not module.startswith("cli/")])
def test_no_arrow_runs_upwards(module: str) -> None:
    assert set() == set(imports_of(module)) - MAY_IMPORT[module]


@pytest.mark.parametrize("module", [module for module in modules() if module.startswith("cli/")])
def test_the_command_line_reaches_the_engine_through_its_faces(module: str) -> None:
    assert set() == set(imports_of(module)) & {"_native", "_headgate"}


def test_only_the_faces_know_the_engine() -> None:
    outside = [module for module in modules() if "_native" in imports_of(module) and module not in FACES]
    assert outside == []


def test_the_walk_sees_imports_inside_functions_and_for_types() -> None:
    assert "_native" in set(imports_of("_server"))
    assert "_summary" in set(imports_of("_errors"))


def test_the_order_has_no_circle() -> None:
    placed: set[str] = set()
    rest = {name: below - {"_headgate"} for name, below in MAY_IMPORT.items()}
    while rest:
        free = {name for name, below in rest.items() if below <= placed}
        assert free, f"a circle among {sorted(rest)}"
        placed |= free
        rest = {name: below for name, below in rest.items() if name not in free}
