"""The examples in docstrings that are typed at a prompt print what they show."""

import ast
import asyncio
import concurrent.futures
import doctest
import gzip
import inspect
import json
import queue
import traceback
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import headgate
from support.docstrings import members, public, typed_in

ADDRESS = "127.0.0.1:8080"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

TYPED = {name: typed_in(thing) for name, thing in [*public(), *members()]}


async def fetch(url: str) -> str:
    await asyncio.sleep(0)
    return "page of " + url


@pytest.fixture
def at_hand(server: str) -> Iterator[dict[str, Any]]:
    """What the examples use and do not explain."""
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
        }


def printed_by(example: doctest.Example, variables: dict[str, Any], runner: asyncio.Runner) -> str:
    """What it prints at a prompt where `await` can be typed; of an exception its last line."""
    code = compile(example.source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = StringIO()
    with redirect_stdout(printed):
        try:
            ended = eval(code, variables)  # noqa: S307 - it is our own
            if inspect.iscoroutine(ended):
                runner.run(ended)
        except Exception as error:  # noqa: BLE001 - it may be what is shown
            return "".join(traceback.format_exception_only(error))
    return printed.getvalue()


@pytest.mark.parametrize("name", [name for name, examples in TYPED.items() if examples])
def test_the_example_prints_what_it_shows(
    name: str, at_hand: dict[str, Any], server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    address = server.partition("//")[2]
    with asyncio.Runner() as runner:
        if name.startswith("Async"):
            at_hand["client"] = headgate.AsyncClient(base_url=server, retries=0)
        for example in TYPED[name]:
            example.source = example.source.replace(ADDRESS, address)
            printed = printed_by(example, at_hand, runner).replace(address, ADDRESS)
            shown = example.exc_msg or example.want
            assert doctest.OutputChecker().check_output(shown, printed, FLAGS), f"{example.source}{shown}{printed}"
        if name.startswith("Async"):
            runner.run(at_hand["client"].aclose())
