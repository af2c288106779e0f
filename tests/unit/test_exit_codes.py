"""The exit codes: one table for all verbs, and one of `headgate status` that does not contradict it."""

import re
from typing import Any

import pytest

from headgate import JobStatus
from headgate.cli import status
from headgate.cli._exit_codes import MEANINGS, STATUS_MEANINGS
from support.command import help_of
from support.figures import status_json

SUCCEEDED: dict[str, Any] = {"finished": True, "failed": 0, "errors": {}}


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        (0, SUCCEEDED),
        (3, SUCCEEDED | {"failed": 1}),
        (5, {"running": True}),
        (5, {"running": True, "paused": True}),
        (5, SUCCEEDED | {"running": True}),
        (6, {"failed": 60}),
        (6, {"failed": 0, "errors": {}}),
        (6, {"resumable": False}),
    ],
)
def test_the_exit_code_of_status_is_the_state_of_the_job(expected: int, changes: dict[str, Any]) -> None:
    assert expected == status.exit_code(JobStatus.from_json(status_json(**changes)))
    assert expected in STATUS_MEANINGS


def test_a_code_of_both_tables_has_the_same_cause() -> None:
    assert {0, 1, 2, 3, 4, 129, 130, 141, 143} == set(MEANINGS)
    assert {0, 1, 2, 3} == set(MEANINGS) & set(STATUS_MEANINGS)
    assert MEANINGS[3] == STATUS_MEANINGS[3]


@pytest.mark.parametrize(
    ("verb", "meanings"), [("fetch", MEANINGS), ("retry", MEANINGS), ("status", STATUS_MEANINGS)], ids=lambda each: each
)
def test_the_help_has_the_table(verb: str, meanings: dict[int, str]) -> None:
    listed = help_of(verb).partition("\nexit codes:\n")[2]
    assert list(map(str, meanings)) == re.findall(r"^  (\d+) ", listed, re.MULTILINE)
    assert all(meaning in " ".join(listed.split()) for meaning in meanings.values())
