import ast
import pickle
import subprocess
import sys
from importlib import import_module
from inspect import get_annotations
from pathlib import Path
from typing import get_type_hints

import pytest

import headgate
import headgate.testing

ENGINE_AND_FRIENDS = {"headgate._headgate", "rich", "headgate.jobs._options"}
PACKAGES = {"headgate.jobs", "headgate.tasks", "headgate.limits", "headgate.portal"}
SLOW = {
    *("asyncio", "concurrent.futures", "dataclasses", "email", "html", "http", "importlib.metadata", "inspect", "json"),
    *("logging", "pathlib", "rich", "secrets", "socket", "ssl", "subprocess", "textwrap", "urllib.parse"),
}
"""Modules whose import takes milliseconds."""


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


OF_THE_ENGINE = {"BatchTable", "RowStream"}
"""Classes that the compiled module defines, with its own name."""
CLASSES = {
    f"{module.__name__}.{name}": value
    for module in (headgate, headgate.testing)
    for name in module.__all__
    if isinstance(value := getattr(module, name), type) and name not in OF_THE_ENGINE
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_has_its_public_name_by_which_it_can_be_pickled(name: str) -> None:
    found = CLASSES[name]
    assert name == f"{found.__module__}.{found.__qualname__}"
    assert found is pickle.loads(pickle.dumps(found))  # noqa: S301 - our own bytes


@pytest.mark.parametrize("name", CLASSES)
def test_the_annotations_of_a_class_can_be_read(name: str) -> None:
    found = CLASSES[name]
    assert get_annotations(found).keys() <= get_type_hints(found).keys()


def test_the_mock_is_there_without_an_import_of_its_own() -> None:
    code = (
        "import sys, headgate\n"
        "assert 'headgate.testing' not in sys.modules\n"
        "assert 'testing' in dir(headgate) and 'testing' not in headgate.__all__\n"
        "print(headgate.testing.mock().call_count)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "0" == done.stdout.strip()


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(headgate, "fecth")


def test_importing_headgate_loads_neither_the_engine_nor_rich_nor_any_package() -> None:
    code = "import sys, headgate, headgate.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set() == (ENGINE_AND_FRIENDS | PACKAGES) & set(done.stdout.split())


def imported_by(code: str) -> set[str]:
    """Returns the modules that a program imports, without those of the start of the interpreter."""
    code = f"import sys; before = set(sys.modules)\n{code}\nprint(*set(sys.modules) - before)"
    return set(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split())


def test_importing_headgate_imports_nothing_slow_and_no_other_module_of_it() -> None:
    modules = imported_by("import headgate")
    assert {"headgate"} == {name for name in modules if name.startswith("headgate")}
    assert set() == SLOW & modules


def test_a_client_for_threads_imports_nothing_slow() -> None:
    modules = imported_by("import headgate\nheadgate.Client(retries=0)")
    assert "headgate._headgate" in modules
    assert set() == SLOW & modules


def test_a_request_from_a_thread_imports_no_asyncio_and_what_most_requests_do_not_need() -> None:
    code = (
        "import headgate\n"
        "with headgate.Client(retries=0) as client:\n"
        "    try:\n"
        "        client.get('http://127.0.0.1:1/')\n"
        "    except headgate.ConnectError:\n"
        "        pass"
    )
    needed = {"dataclasses", "inspect"}  # of `headgate.Request`
    assert needed == SLOW & imported_by(code)


def test_bounding_tasks_loads_no_engine() -> None:
    code = "import sys, headgate; headgate.amap, headgate.map, headgate.gather, headgate.Rate; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"headgate.tasks"} == (ENGINE_AND_FRIENDS | {"headgate.tasks", "headgate.jobs"}) & set(done.stdout.split())
