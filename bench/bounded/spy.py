"""Observes a way: how many tasks it runs at once, how far ahead it takes items, and the order of its results."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, overload

from bounded.ways import Runner

_LASTS_S: Final = (0.05, 0.10)
"""The duration of a task in a check: even a slow way can start as many as its limit before the first ends."""

BY_COMPLETION: Final = "completion"
BY_INPUT: Final = "input"
BY_NEITHER: Final = "neither"
DROPPED: Final = "dropped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """The observations of one check.

    Attributes:
        tasks: The number of tasks.
        finished: How many tasks ran to their end.
        each_once: Whether every result was delivered exactly once.
        order: The order of the results: one of the constants above.
        most_running: The largest number of tasks that were started and not ended.
        most_taken: The largest number of items that were taken and whose tasks had not ended.
    """

    tasks: int
    finished: int
    each_once: bool
    order: str
    most_running: int
    most_taken: int


class _Order(list[int]):
    """A total that records every result."""

    def __add__(self, result: int, /) -> "_Order":  # type: ignore[override] # it is a total, not a list
        self.append(result)
        return self

    __iadd__ = __add__  # type: ignore[assignment]


class Spy(Sequence[int]):
    """Items and work that count their uses."""

    def __init__(self, tasks: int) -> None:
        draw = random.Random(0)  # noqa: S311 - the same on every machine
        self._lasts_s = [draw.uniform(*_LASTS_S) for _ in range(tasks)]
        self._ended: list[int] = []
        self._taken = self._running = self._most_running = self._most_taken = 0

    def __len__(self) -> int:
        return len(self._lasts_s)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        return range(len(self))[index]

    def __iter__(self) -> Iterator[int]:
        for item in range(len(self)):
            self._taken += 1
            self._most_taken = max(self._most_taken, self._taken)
            yield item

    async def work(self, item: int) -> int:
        """Takes a random time."""
        self._running += 1
        self._most_running = max(self._most_running, self._running)
        await asyncio.sleep(self._lasts_s[item])
        self._ended.append(item)
        self._running -= 1
        self._taken -= 1
        return item

    async def watch(self, run: Runner, limit: int) -> Seen:
        """Lets `run` do all the work, and returns the observations."""
        order = _Order()
        await run(self.work, self, limit, order)
        return Seen(
            tasks=len(self),
            finished=len(self._ended),
            each_once=sorted(order) == list(range(len(self))),
            order=self._kind_of(order),
            most_running=self._most_running,
            most_taken=self._most_taken,
        )

    def _kind_of(self, order: Sequence[int]) -> str:
        if not order:
            return DROPPED
        if all(one < other for one, other in pairwise(order)):
            return BY_INPUT
        return BY_COMPLETION if order == self._ended else BY_NEITHER
