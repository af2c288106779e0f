"""The messages of refused calls: each line of the chapter is a call, the line below it is the error it raises."""

import asyncio
import math
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

import headgate
import headgate.testing
from support.message_file import chapter
from support.virtual_clock import run_on_virtual_clock

CHAPTER = "Mistakes in Python: a call, and what it raises"


async def fetch(item: object) -> object:
    return item


AT_HAND: dict[str, Any] = {
    **{name: getattr(headgate, name) for name in dir(headgate)},
    "asyncio": asyncio,
    "fetch": fetch,
    "headgate": headgate,
    "math": math,
    "re": re,
    "run": run_on_virtual_clock,
    "testing": headgate.testing,
    "timedelta": timedelta,
}
"""Names that the calls use, besides `client` and `portal`; `run` is for calls that need an event loop."""


@pytest.fixture(scope="module")
def client() -> Iterator[headgate.Client]:
    with headgate.Client() as client:
        yield client


@pytest.fixture(scope="module")
def portal() -> Iterator[headgate.Portal]:
    with headgate.Portal() as portal:
        yield portal


def pairs() -> list[tuple[str, str]]:
    lines = [line for line in chapter(CHAPTER).splitlines() if line and not line.startswith("#")]
    return list(zip(lines[::2], (line.strip() for line in lines[1::2]), strict=True))


@pytest.mark.parametrize(("call", "refusal"), pairs())
def test_a_mistake_is_refused_in_these_words(
    call: str, refusal: str, client: headgate.Client, portal: headgate.Portal
) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its type is in the snapshot
        eval(call, AT_HAND | {"client": client, "portal": portal})  # noqa: S307 - it is our own
    assert refusal == f"{caught.type.__name__}: {caught.value}"


def test_no_call_is_there_twice() -> None:
    calls = [call for call, _ in pairs()]
    assert len(calls) == len(set(calls))
