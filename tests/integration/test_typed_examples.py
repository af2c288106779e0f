"""The examples in docstrings that are typed at a prompt print what they show."""

import asyncio
import concurrent.futures
import gzip
import json
import queue
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate
import headgate.testing
from support.docstrings import check, typed

TYPED = {name: examples for name, examples in typed().items() if not name.startswith(("ray.", "spark."))}
"""Examples of the other modules run in the tests that have a cluster."""


async def fetch(url: str) -> str:
    await asyncio.sleep(0)
    return "page of " + url


@pytest.fixture
def at_hand(server: str) -> Iterator[dict[str, Any]]:
    """Returns the names that the examples use and do not explain."""
    with headgate.Client(base_url=server, retries=0) as client:
        yield {
            "asyncio": asyncio,
            "client": client,
            "concurrent": concurrent,
            "fetch": fetch,
            "gzip": gzip,
            "headgate": headgate,
            "json": json,
            "pyarrow": pa,
            "queue": queue,
            "server": headgate.testing.mock(),
        }


@pytest.mark.parametrize("name", [name for name, examples in TYPED.items() if examples])
def test_the_example_prints_what_it_shows(
    name: str, at_hand: dict[str, Any], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with asyncio.Runner() as runner:
        if name.startswith("Async"):
            at_hand["client"] = headgate.AsyncClient(base_url=server, retries=0)
        check(TYPED[name], at_hand, server, runner)
        if name.startswith("Async"):
            runner.run(at_hand["client"].aclose())
