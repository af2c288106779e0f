"""`--if-exists overwrite` asks before it removes rows, if a user is there to answer."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.results import rows
from support.run import HEADGATE, headgate
from support.terminal import on_terminal, shell_on_terminal

QUESTION = "replace them? [y/N] "


@pytest.mark.parametrize(("expected", "answer"), [((0, 3), "y\n"), ((0, 3), "YES\n"), ((2, 5), "n\n"), ((2, 5), "\n")])
def test_on_a_terminal_rows_are_replaced_only_if_the_answer_is_yes(
    expected: tuple[int, int], answer: str, server: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    code, shown = on_terminal(
        "fetch", f"{server}/[1-3]", "-o", out, "--if-exists", "overwrite", question=QUESTION, answer=answer
    )
    assert expected == (code, len(rows(out)))
    assert f"{out} contains 5 rows of a job started 20" in shown
    assert ("nothing was done" in shown) == (code == 2)


def damage_the_commits(out: Path) -> None:
    for commit in (out / "_headgate" / "log").iterdir():
        commit.write_bytes(b"{")


def remove_the_manifest(out: Path) -> None:
    (out / "_headgate" / "job.json").unlink()


def remove_all_but_the_parts(out: Path) -> None:
    shutil.rmtree(out / "_headgate")


@pytest.mark.parametrize("spoil", [damage_the_commits, remove_the_manifest, remove_all_but_the_parts])
def test_a_job_that_cannot_be_read_is_not_thrown_away_unasked(
    spoil: Callable[[Path], None], server: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    spoil(out)
    question = f"{out} contains a job that can't be read (see `headgate status`): replace what is there? [y/N] "
    code, shown = on_terminal(
        "fetch",
        f"{server}/[1-3]",
        "-o",
        out,
        "--if-exists",
        "overwrite",
        question="what is there? [y/N] ",
        answer="n\n",
    )
    assert (2, 5) == (code, len(rows(out)))
    assert shown.startswith(question)


def test_rows_that_no_commit_names_are_not_thrown_away_unasked(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    for commit in (out / "_headgate" / "log").iterdir():
        commit.unlink()
    code, shown = on_terminal(
        "fetch",
        f"{server}/[1-3]",
        "-o",
        out,
        "--if-exists",
        "overwrite",
        question="what is there? [y/N] ",
        answer="n\n",
    )
    assert (2, 5) == (code, len(rows(out)))
    assert shown.startswith(f"{out} contains a job that can't be read")


def test_the_end_of_the_input_is_no_yes_and_ends_the_line(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    code, shown = on_terminal(
        "fetch", f"{server}/[1-3]", "-o", out, "--if-exists", "overwrite", question=QUESTION, answer="\x04"
    )
    assert (2, 5) == (code, len(rows(out)))
    assert "nothing was done" == shown.splitlines()[-1]


@pytest.mark.parametrize(("expected", "answer"), [((0, 3), "y\n"), ((2, 5), "n\n")])
def test_the_question_goes_to_the_terminal_if_urls_come_through_a_pipe(
    expected: tuple[int, int], answer: str, server: str, tmp_path: Path
) -> None:
    out, urls = tmp_path / "out", tmp_path / "urls.txt"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    urls.write_text("".join(f"{server}/{row}\n" for row in range(3)))
    piped = f"cat {urls} | {HEADGATE} fetch - -o {out} --if-exists overwrite"
    code, shown = shell_on_terminal(piped, question=QUESTION, answer=answer)
    assert expected == (code, len(rows(out)))
    assert f"{out} contains 5 rows of a job started 20" in shown


@pytest.mark.parametrize("flag", ["-y", "--yes"])
def test_there_is_no_question_with_yes(flag: str, server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    code, shown = on_terminal("fetch", f"{server}/[1-3]", "-o", out, "--if-exists", "overwrite", flag)
    assert (0, 3, False) == (code, len(rows(out)), QUESTION in shown)


def test_there_is_no_question_if_nothing_is_lost(server: str, tmp_path: Path) -> None:
    code, shown = on_terminal("fetch", f"{server}/[1-3]", "-o", tmp_path / "out", "--if-exists", "overwrite")
    assert (0, False) == (code, QUESTION in shown)


def test_there_is_no_question_without_a_terminal(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    done = headgate("fetch", f"{server}/[1-3]", "-o", out, "--if-exists", "overwrite", check=0)
    assert (3, False) == (len(rows(out)), QUESTION in done.stderr)
