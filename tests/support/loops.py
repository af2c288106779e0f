"""Helpers for tests of event loops; `run` of conftest.py runs a coroutine in each kind of loop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

HELD = "/delay/3600"
Run = Callable[[Coroutine[Any, Any, None]], None]


async def until(is_true: Callable[[], bool]) -> None:
    """Lets the loop turn until the condition holds: actions of the engine are no events of the loop."""
    async with asyncio.timeout(20):
        while not is_true():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
