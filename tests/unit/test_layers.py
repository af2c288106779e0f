"""Which packages may import which, and that no modules import each other in a circle."""

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import headgate

PACKAGE = Path(headgate.__file__).parent

# Each package may also use its own modules and those at the top of headgate.
USED_BY = {
    "": set[str](),
    "limits": set[str](),
    "tasks": {"limits", "portal"},
    "portal": set[str](),
    "jobs": set[str](),
    "batches": {"jobs"},
    "serving": set[str](),
    "client": {"jobs", "batches", "serving"},
    "ray": {"batches"},
    "spark": {"batches"},
    "cli": {"jobs"},
    "testing": {"client", "serving"},
}
WITHOUT_ENGINE = {"limits", "tasks", "portal"}
COMMAND = "__main__"
"""The module that only starts the command line."""


def modules() -> list[str]:
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]
    names = (path.relative_to(PACKAGE).with_suffix("").as_posix() for path in paths)
    return sorted(name for name in names if not name.endswith("__init__"))


def package_of(module: str) -> str:
    return module.rpartition("/")[0]


def imports_of(module: str) -> Iterator[str]:
    """Yields the modules of headgate that a module imports, anywhere in it, for types only or not."""
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
        yield from ("/".join(name.split(".")[1:]) for name in names if name.split(".")[0] == "headgate")


def is_module(name: str) -> bool:
    base = PACKAGE.parent.joinpath(*name.split("."))
    return any(base.with_suffix(suffix).exists() for suffix in (".py", ".pyi")) or base.is_dir()


@pytest.mark.parametrize("module", [module for module in modules() if module != COMMAND])
def test_a_module_uses_only_the_packages_it_may(module: str) -> None:
    package = package_of(module)
    assert {package_of(name) for name in imports_of(module)} <= {"", package, *USED_BY[package]}


def test_no_modules_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter({module: set(imports_of(module)) for module in modules()}).prepare()
    except CycleError as circle:
        pytest.fail(" -> ".join(circle.args[1]))


def test_only_the_main_module_imports_the_command() -> None:
    assert {"cli"} == set(imports_of(COMMAND))


def test_packages_for_plain_asyncio_import_no_engine() -> None:
    assert {"_native"} == {module for module in modules() if "_headgate" in imports_of(module)}
    users = {package_of(module) for module in modules() if "_native" in imports_of(module)}
    assert set() == users & WITHOUT_ENGINE


def test_the_walk_sees_imports_inside_functions_and_for_types() -> None:
    assert "_native" in set(imports_of("jobs/_server"))
    assert "_summary" in set(imports_of("_errors"))
