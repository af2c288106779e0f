"""Imports run downwards only: the order is the one drawn in `headgate/__init__.py`."""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

import headgate
from support.documents import ROOT

PACKAGE = Path(headgate.__file__).parent

ROOMS_USED_BY = {
    "": set[str](),
    "limits": set[str](),
    "tasks": {"limits"},
    "client": {"jobs", "batches"},
    "portal": set[str](),
    "jobs": set[str](),
    "batches": {"jobs"},
    "ray": {"batches"},
    "spark": {"batches"},
    "cli": {"jobs"},
    "testing": {"client"},
}
COMMAND = "__main__"
"""What starts the command line, and nothing else."""
FACES = {
    "batches/_runs",
    "batches/_batch_iterator",
    "batches/_async_batches",
    "batches/_fetch_table",
    "batches/_supply",
    "client/_async_client",
    "client/_async_stream",
    "client/_calls",
    "client/_client",
    "client/_engine",
    "client/_flow",
    "client/_loops",
    "client/_outcome",
    "client/_response",
    "client/_streamed",
    "jobs/_run",
    "jobs/_job",
    "jobs/_plan",
    "jobs/_server",
    "jobs/_option_rules",
    "testing/_serving",
}
"""Who knows the engine: also what has it read the texts of options, and what holds its answers."""


def drawing() -> str:
    return (headgate.__doc__ or "").partition("Who may import whom")[2].partition("\n\n")[2]


def drawn_floors() -> list[list[str]]:
    """The modules on each line of the drawing. What stands after three spaces or more is said of them."""
    floors, room = list[list[str]](), ""
    for line in filter(str.strip, drawing().splitlines()):
        room = room if line.startswith(" " * 8) else ""
        names = re.split(" {3,}", line.strip())[0].split()
        if names[0].endswith("/"):
            room = names[0]
        else:
            floors.append([room + name for name in names])
    return floors


FLOOR_OF = {module: number for number, floor in enumerate(drawn_floors()) for module in floor}


def modules() -> list[str]:
    paths = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")]
    return sorted(path.relative_to(PACKAGE).with_suffix("").as_posix() for path in paths)


def in_rooms() -> list[str]:
    return [module for module in modules() if not module.endswith("__init__")]


def room_of(module: str) -> str:
    return module.rpartition("/")[0]


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
        yield from ("/".join(name.split(".")[1:]) for name in names if name.split(".")[0] == "headgate")


def is_module(name: str) -> bool:
    base = PACKAGE.parent.joinpath(*name.split("."))
    return any(base.with_suffix(suffix).exists() for suffix in (".py", ".pyi")) or base.is_dir()


def test_the_drawing_has_every_module_once() -> None:
    assert in_rooms() == sorted(module for floor in drawn_floors() for module in floor)


def test_the_architecture_shows_the_same_drawing() -> None:
    indented = re.sub("^(?=.)", "    ", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert drawing() in indented


@pytest.mark.parametrize("module", [module for module in in_rooms() if module != COMMAND])
def test_no_arrow_runs_upwards(module: str) -> None:
    below = {name for name, floor in FLOOR_OF.items() if floor < FLOOR_OF[module]}
    assert set() == set(imports_of(module)) - below


@pytest.mark.parametrize("module", in_rooms())
def test_a_room_uses_only_the_rooms_it_may(module: str) -> None:
    room = room_of(module)
    assert {room_of(name) for name in imports_of(module)} <= {"", room, *ROOMS_USED_BY[room]}


def test_nothing_imports_the_command_line() -> None:
    assert {"cli"} == set(imports_of(COMMAND))
    outside = [module for module in modules() if room_of(module) != "cli" and module != COMMAND]
    assert [] == [module for module in outside if "cli" in {name.split("/")[0] for name in imports_of(module)}]


def test_only_the_faces_know_the_engine() -> None:
    assert {"_native", *FACES} == {module for module in modules() if {"_native", "_headgate"} & set(imports_of(module))}


def test_a_room_has_no_code_of_its_own_beside_its_files() -> None:
    assert [] == [
        name for room in ("limits", "tasks", "portal", "jobs", "batches") for name in imports_of(f"{room}/__init__")
    ]


def test_the_walk_sees_imports_inside_functions_and_for_types() -> None:
    assert "_native" in set(imports_of("jobs/_server"))
    assert "_summary" in set(imports_of("_errors"))


def test_the_drawing_is_read_from_the_bottom_up() -> None:
    assert all(FLOOR_OF[lower] < FLOOR_OF[upper] for lower, upper in pairwise(("_version", "_native", "jobs/_run")))
