"""The fixture `headgate_mock`, in tests of a user."""

import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

import headgate.testing

TESTS = """
import headgate
import pytest

URL = "https://api.example.com/users/1"


@pytest.fixture
def client():
    with headgate.Client() as client:
        yield client


def test_it_responds(headgate_mock, client):
    headgate_mock.get(URL, json={"id": 1})
    assert client.get(URL).json() == {"id": 1}


@pytest.mark.headgate_mock(base_url="https://api.example.com", assert_all_called=False)
def test_it_has_options(headgate_mock, client):
    headgate_mock.get("/users/1", text="one")
    headgate_mock.get("/users/2", text="two")
    assert client.get(URL).text == "one"


@pytest.mark.headgate_mock(lambda request: 418)
def test_it_may_have_a_handler(headgate_mock, client):
    assert client.get(URL).status_code == 418
"""
FAILING = """
import headgate


def test_there_is_no_response(headgate_mock):
    with headgate.Client() as client:
        list(client.fetch_many(["https://nobody.example/"]))


def test_there_is_no_question(headgate_mock):
    headgate_mock.get("/nothing")
"""


def pytest_runs(tests: str, folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_theirs.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *flags]
    strict = ["--strict-markers", "-W", "error", "-W", "ignore:this headgate is a debug build"]
    return subprocess.run([*command, *strict], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("flags", [(), ("-n", "2"), ("-p", "headgate.testing.plugin")], ids=["alone", "xdist", "named"])
def test_a_test_that_names_the_fixture_has_it(tmp_path: Path, flags: tuple[str, ...]) -> None:
    done = pytest_runs(TESTS, tmp_path, *flags)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_a_missing_response_or_a_route_that_is_not_called_is_an_error_of_its_test(tmp_path: Path) -> None:
    done = pytest_runs(FAILING, tmp_path)
    assert "2 passed, 2 errors" in done.stdout, done.stdout + done.stderr
    assert "the mock had no response for 1 request:" in done.stdout
    assert "GET /nothing (never called)" in done.stdout


def test_the_plugin_loads_nothing_before_it_is_used(tmp_path: Path) -> None:
    tests = (
        'import sys\n\n\ndef test_it():\n    assert not {"headgate._headgate", "headgate.client"} & set(sys.modules)\n'
    )
    assert "1 passed" in pytest_runs(tests, tmp_path).stdout


def test_pytest_finds_the_plugin_where_headgate_is_installed() -> None:
    points = [point.value for point in distribution("headgate").entry_points if point.group == "pytest11"]
    assert points == ["headgate.testing.plugin"]


def test_the_names_of_the_package_are_there() -> None:
    assert all(getattr(headgate.testing, name) is not None for name in dir(headgate.testing))
    assert not hasattr(headgate.testing, "Mock")
