"""The page about paid APIs is short, and each of its steps prints what it shows."""

import shutil
from pathlib import Path

import pytest

from support.console import Console
from support.documents import steps, text
from support.run import serving

PAGE = "docs/paid-apis.md"
SERVER = ("--api-bearer-ttl", "2s", "--api-rate", "300/s", "--api-fail-first", "3%", "--api-html-first", "1%")


def test_the_page_has_600_words_at_most() -> None:
    assert len(text(PAGE).split()) <= 600


@pytest.mark.skipif(shutil.which("curl") is None, reason="the page fetches tokens with curl")
def test_every_step_of_the_page_prints_what_it_shows(tmp_path: Path) -> None:
    assert f"headgate serve --port 8080 {' '.join(SERVER)} &\n" in text(PAGE)
    with serving(*SERVER) as server:
        console = Console(tmp_path, server)
        for step in steps(PAGE):
            shown, printed = console.take(step)
            assert shown == printed, step
