"""What the commands of bench/ have in common."""

from typing import Any

import pytest

from harness import command
from harness.findings import Finding
from harness.servers import ServerError
from harness.tables import Target

ABOUT: dict[str, Any] = {"cpu": "A CPU", "date": "2026-01-01"}


def finding(**other: Any) -> Finding:
    made: dict[str, Any] = {"title": "Found", "targets": [], "text": "a table", "raw": []}
    return Finding(**(made | other))


def run(**asked: Any) -> int:
    return command.run(asked, dict(ABOUT), title="Title", caveats=lambda _: "- careful", keep_as=None)


def test_what_was_found_is_printed_after_what_is_to_be_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert 0 == run(one=finding, other=lambda: finding(title="More", targets=[Target("fast", 1.0, "1.0", met=False)]))
    printed = capsys.readouterr().out
    parts = ["# Title: A CPU, 2026-01-01", "- careful", "## Found", "a table", "## More", "| fast | 1.0 | MISSED |"]
    assert sorted(map(printed.index, parts)) == [printed.index(part) for part in parts]


def test_a_wrong_response_changes_the_exit_code_and_a_missed_target_does_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert 1 == run(one=lambda: finding(wrong=["lost"]))
    assert "- WRONG: lost" in capsys.readouterr().out
    assert 0 == run(one=lambda: finding(targets=[Target("fast", 1.0, "1.0", met=False)]))


def test_what_cannot_be_measured_says_why(capsys: pytest.CaptureFixture[str]) -> None:
    def measure() -> Finding:
        raise ServerError("there is no server")

    assert 2 == run(one=measure)
    assert ("", "error: there is no server\n") == capsys.readouterr()


def test_an_interrupt_ends_it() -> None:
    def measure() -> Finding:
        raise KeyboardInterrupt

    assert 130 == run(one=measure)


def test_questions_may_be_none_or_those_that_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    parser = command.parser("", ["one", "two"])
    assert [] == parser.parse_args([]).question
    assert ["two", "one"] == parser.parse_args(["two", "one"]).question
    with pytest.raises(SystemExit):
        parser.parse_args(["three"])
    assert "three: the questions are one, two" in capsys.readouterr().err
