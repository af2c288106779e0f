"""`--fresh` asks before it throws rows away, where somebody is there to answer."""

from pathlib import Path

import pytest

from support.results import rows
from support.run import headgate
from support.terminal import on_terminal

QUESTION = "replace them? [y/N] "


@pytest.mark.parametrize(("expected", "answer"), [((0, 3), "y\n"), ((0, 3), "YES\n"), ((2, 5), "n\n"), ((2, 5), "\n")])
def test_on_a_terminal_rows_are_replaced_only_if_the_answer_is_yes(
    expected: tuple[int, int], answer: str, server: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    code, shown = on_terminal("fetch", f"{server}/[1-3]", "-o", out, "--fresh", question=QUESTION, answer=answer)
    assert expected == (code, len(rows(out)))
    assert f"{out} holds 5 rows of a job begun 20" in shown
    assert ("nothing was done" in shown) == (code == 2)


def test_a_job_that_is_damaged_is_not_thrown_away_unasked(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    for commit in (out / "_headgate" / "log").iterdir():
        commit.write_bytes(b"{")
    arguments = ("fetch", f"{server}/[1-3]", "-o", out, "--fresh")
    code, shown = on_terminal(*arguments, question="replace what is there? [y/N] ", answer="n\n")
    assert (2, True) == (code, "_headgate/log" in shown)
    assert 5 == len(rows(out))


def test_the_end_of_the_input_is_no_yes(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    code, _ = on_terminal("fetch", f"{server}/[1-3]", "-o", out, "--fresh", question=QUESTION, answer="\x04")
    assert (2, 5) == (code, len(rows(out)))


@pytest.mark.parametrize("flag", ["-y", "--yes"])
def test_nobody_is_asked_who_has_said_yes(flag: str, server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    code, shown = on_terminal("fetch", f"{server}/[1-3]", "-o", out, "--fresh", flag)
    assert (0, 3, False) == (code, len(rows(out)), QUESTION in shown)


def test_nobody_is_asked_where_nothing_is_lost(server: str, tmp_path: Path) -> None:
    code, shown = on_terminal("fetch", f"{server}/[1-3]", "-o", tmp_path / "out", "--fresh")
    assert (0, False) == (code, QUESTION in shown)


def test_nobody_is_asked_without_a_terminal(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    done = headgate("fetch", f"{server}/[1-3]", "-o", out, "--fresh", check=0)
    assert (3, False) == (len(rows(out)), QUESTION in done.stderr)
