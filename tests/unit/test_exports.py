import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import headgate

ENGINE_AND_FRIENDS = {"headgate._headgate", "rich", "headgate.jobs._options"}
PACKAGES = {"headgate.jobs", "headgate.tasks", "headgate.limits", "headgate.portal"}


def test_every_public_name_can_be_looked_up_without_the_engine_at_first() -> None:
    for name in dir(headgate):
        assert getattr(headgate, name) is not None


def test_type_checkers_see_every_public_name_where_it_is_at_run_time() -> None:
    tree = ast.parse(Path(headgate.__file__).read_text(encoding="utf-8"))
    seen = {
        alias.name: node.module or ""
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert sorted(seen) == dir(headgate)
    assert [] == [name for name, home in seen.items() if getattr(import_module(home), name) != getattr(headgate, name)]


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(headgate, "fecth")


def test_importing_headgate_loads_neither_the_engine_nor_rich_nor_any_package() -> None:
    code = "import sys, headgate, headgate.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set() == (ENGINE_AND_FRIENDS | PACKAGES) & set(done.stdout.split())


def test_bounding_tasks_loads_no_engine() -> None:
    code = "import sys, headgate; headgate.amap, headgate.map, headgate.gather, headgate.Rate; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"headgate.tasks"} == (ENGINE_AND_FRIENDS | {"headgate.tasks", "headgate.jobs"}) & set(done.stdout.split())
