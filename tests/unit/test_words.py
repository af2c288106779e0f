"""Private words of earlier versions, which the code, the help, the messages and the README don't use."""

import re
import subprocess
from typing import Final

import pytest

from headgate.cli._verbs import VERBS
from support.documents import ROOT
from support.run import HEADGATE

PRIVATE_WORDS: Final = (
    "held back",
    "holds? back",
    "asked again",
    "asks? again",
    "passed over",
    "given back",
    "left alone",
    "trails?",
    "inbox(es)?",
    "bells?",
    "stand-ins?",
    "patience",
    "whoever",
    "(?-i:[Nn]obody)",
    "somebody",
    "who waits?",
    "troubles?",
    "bound by",
    "name servers?",
    "time-outs?",
    "giv(e|es|ing) up",
    "gave up",
    "given up",
)
"""Regular expressions, each of a whole word or phrase; also within names such as `is_held_back`."""

PRIVATE: Final = re.compile(
    "|".join(rf"(?<![a-z])(?:{word.replace(' ', '[ _]')})(?![a-z])" for word in PRIVATE_WORDS), re.IGNORECASE
)

ANSWER: Final = re.compile(
    r"(?<![a-z])answer(ed|ing)(?![a-z])|(?<![^\s(])answers?(?![\w:=]| section| and authority)", re.IGNORECASE
)
"""The word for a response; neither a column, flag or identifier with that name nor the section of a DNS message."""


def private_words_in(text: str) -> list[str]:
    """Returns the lines with private words."""
    return [line.strip() for line in text.splitlines() if PRIVATE.search(line)]


def texts(directory: str) -> dict[str, str]:
    """Returns the content of a file, or of all files of a directory, by path."""
    root = ROOT / directory
    files = (
        [root]
        if root.is_file()
        else [path for path in root.rglob("*") if path.suffix in {".py", ".pyi", ".rs", ".txt", ".md"}]
    )
    assert files
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in files}


def test_private_words_are_found_in_prose_and_in_names() -> None:
    for line in ("rows that are held back", "fn is_held_back()", "const PATIENCE: Duration", "Nobody waits"):
        assert [line] == private_words_in(line)
    assert [] == private_words_in("trailing whitespace, trailers, labelled, headgate and inboxed")


@pytest.mark.parametrize(
    "directory", ["python/headgate", "crates", "tests/snapshots", "README.md", "docs", "CHANGELOG.md"]
)
def test_the_code_and_its_messages_have_no_private_words(directory: str) -> None:
    found = {path: private_words_in(text) for path, text in texts(directory).items()}
    assert {} == {path: lines for path, lines in found.items() if lines}


def test_an_answer_of_a_server_is_found_in_prose_and_in_names() -> None:
    for line in ("a server that answers at once", "the answer (of 40 KiB)", "fn is_answered()"):
        assert ANSWER.search(line)
    for line in ("FIRST_ANSWER_WAIT", "--extract 'answer=$.answer'", "message.add_answer(", "the answer section"):
        assert not ANSWER.search(line)


@pytest.mark.parametrize("directory", ["python/headgate", "crates"])
def test_the_code_says_response_and_not_answer(directory: str) -> None:
    found = {
        path: [line for line in text.splitlines() if ANSWER.search(line)] for path, text in texts(directory).items()
    }
    assert {} == {path: lines for path, lines in found.items() if lines}


@pytest.mark.parametrize("verb", [*VERBS, "errors"])
def test_the_help_has_no_private_words(verb: str) -> None:
    printed = subprocess.run([HEADGATE, "help", verb], capture_output=True, text=True, check=True).stdout
    assert printed
    assert [] == private_words_in(printed)
