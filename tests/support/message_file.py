"""The file of all messages: tests/snapshots/messages.txt, readable from top to bottom."""

import os
import re
from typing import Final

from support.documents import ROOT

FILE: Final = ROOT / "tests/snapshots/messages.txt"


def chapter(title: str) -> str:
    """Returns the text of a chapter."""
    found = re.search(rf"(?ms)^== {re.escape(title)} ==\n\n(.*?)(?=\n+== |\n*\Z)", FILE.read_text(encoding="utf-8"))
    assert found
    return found[1]


def check(title: str, text: str) -> None:
    """Asserts that a chapter is this text; with `HEADGATE_WRITE_SNAPSHOT`, replaces the chapter before that."""
    if os.environ.get("HEADGATE_WRITE_SNAPSHOT"):
        before, heading, after = FILE.read_text(encoding="utf-8").partition(f"== {title} ==\n\n")
        rest = after.removeprefix(chapter(title))
        FILE.write_text(f"{before}{heading}{text.strip()}{rest}", encoding="utf-8")
    assert chapter(title) == text.strip()
