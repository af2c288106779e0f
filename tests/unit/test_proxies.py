"""A job notes proxies of the environment that it ignores, in its summary."""

from pathlib import Path
from typing import Any

import pytest

import headgate

NAMES = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def notes(directory: Path, **options: Any) -> list[str]:
    """Runs a job of no rows and returns what its summary notes about proxies."""
    source = directory / "urls.txt"
    source.write_text("")
    summary = headgate.fetch(source, directory / "results", **options)
    return [note for note in summary.notes if "proxy" in note.lower()]


@pytest.mark.parametrize("name", NAMES)
def test_each_variable_that_names_a_proxy_is_noted_without_its_value(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(name, "http://me:secret@proxy:3128")
    assert [f"{name} is set but ignored: to connect through it, use proxy='env'"] == notes(tmp_path)


def test_several_variables_are_one_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "x")
    monkeypatch.setenv("http_proxy", "x")
    expected = "http_proxy, HTTPS_PROXY are set but ignored: to connect through them, use proxy='env'"
    assert [expected] == notes(tmp_path)


def test_there_is_no_note_without_a_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HTTP_PROXY", "")
    monkeypatch.setenv("NO_PROXY", "*")
    assert [] == notes(tmp_path)


@pytest.mark.parametrize("proxy", ["env", "http://proxy:3128"])
def test_there_is_no_note_if_an_option_says_which_proxies_to_use(
    proxy: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert [] == notes(tmp_path, proxy=proxy)
