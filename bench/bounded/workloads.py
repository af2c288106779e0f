"""The work of the tasks: next to nothing, so that the cost is that of running them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

Work: TypeAlias = Callable[[int], Coroutine[Any, Any, int]]

AT_ONCE: Final = "returns at once"
YIELDS: Final = "yields once"
SLEEPS: Final = "sleeps 1 ms"


async def _at_once(item: int) -> int:
    return item


async def _yields_once(item: int) -> int:
    await asyncio.sleep(0)
    return item


async def _sleeps_1_ms(item: int) -> int:
    await asyncio.sleep(0.001)
    return item


WORKLOADS: Final[dict[str, Work]] = {AT_ONCE: _at_once, YIELDS: _yields_once, SLEEPS: _sleeps_1_ms}
