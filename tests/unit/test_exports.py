import subprocess
import sys

import headgate

ENGINE_AND_FRIENDS = {"headgate._headgate", "rich", "headgate.jobs._options"}
ROOMS = {"headgate.jobs", "headgate.tasks", "headgate.limits", "headgate.portal"}


def test_every_public_name_can_be_looked_up_without_the_engine_at_first() -> None:
    assert sorted(headgate.__all__) == dir(headgate)
    for name in set(headgate.__all__) - {"fetch"}:
        assert getattr(headgate, name) is not None


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(headgate, "fecth")


def test_importing_headgate_loads_neither_the_engine_nor_rich_nor_any_room() -> None:
    code = "import sys, headgate, headgate.cli; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert set() == (ENGINE_AND_FRIENDS | ROOMS) & set(done.stdout.split())


def test_bounding_tasks_loads_no_engine() -> None:
    code = "import sys, headgate; headgate.amap, headgate.map, headgate.gather, headgate.Rate; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert {"headgate.tasks"} == (ENGINE_AND_FRIENDS | {"headgate.tasks", "headgate.jobs"}) & set(done.stdout.split())
