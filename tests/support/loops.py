"""What tests of event loops share; `run` of conftest.py runs a coroutine in each kind of loop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

HELD = "/delay/3600"
Run = Callable[[Coroutine[Any, Any, None]], None]


async def until(is_so: Callable[[], bool]) -> None:
    """Asks until it is so: what the engine does is no event of the loop."""
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0)
