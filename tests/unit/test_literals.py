"""A job notes what looks like a column in options that are sent as they are."""

from pathlib import Path
from typing import Any

import pytest

import headgate

DATA = "data is sent as it is, with its braces; json, data_urlencode and form insert values of columns"
HEADERS = "headers is sent as it is, with its braces; header_templates inserts values of columns"


def notes(directory: Path, **options: Any) -> list[str]:
    """Runs a job of no rows and returns what its summary notes about braces."""
    source = directory / "rows.csv"
    source.write_text("url,id\n")
    summary = headgate.fetch(source, directory / "results", **options)
    return [note for note in summary.notes if "braces" in note]


@pytest.mark.parametrize("data", ["{id}", '{"id": "{id}"}', b"\xff{id|none}", "id={id:string}&a=1"])
def test_data_with_a_placeholder_is_noted(data: str | bytes, tmp_path: Path) -> None:
    assert [DATA] == notes(tmp_path, data=data)


def test_a_header_with_a_placeholder_is_noted_once(tmp_path: Path) -> None:
    assert [DATA, HEADERS] == notes(tmp_path, headers={"X-One": "a{id}b", "X-Other": "{id}"}, data="{id}")


@pytest.mark.parametrize("data", ['{"a": {"b": [1]}}', "{}", "{ id }", "{1}", "{{id}}", "a=1", ""])
def test_json_and_other_braces_are_not_noted(data: str, tmp_path: Path) -> None:
    assert [] == notes(tmp_path, data=data)


def test_templates_are_not_noted(tmp_path: Path) -> None:
    assert [] == notes(tmp_path, json={"id": "{id}"}, header_templates={"X-Id": "{id}"})


def test_a_url_with_ranges_has_no_columns_and_no_note(tmp_path: Path) -> None:
    summary = headgate.fetch("http://127.0.0.1:1/[1-1]", tmp_path / "out", data="{id}", retries=0)
    assert () == summary.notes


def test_a_plan_has_the_note(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text("url,id\nhttp://127.0.0.1:1/,7\n")
    assert DATA in headgate.plan(source, data="{id}").notes
