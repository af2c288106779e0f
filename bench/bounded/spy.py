"""What a way really does: how many tasks it runs at once, how far ahead it takes items, in which order it hands out."""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, overload

from bounded.ways import Runner

_LASTS_S: Final = (0.05, 0.10)
"""A task of a check: so long that even a slow way can begin as many as it may before the first ends."""

BY_COMPLETION: Final = "completion"
BY_INPUT: Final = "input"
BY_NEITHER: Final = "neither"
DROPPED: Final = "dropped"


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """Of one check.

    Attributes:
        tasks: How many were asked for.
        finished: How many ran to their end.
        each_once: Every result was handed out, once.
        order: Of the results: one of the words above.
        most_running: The most that were ever begun and not ended.
        most_taken: The most items that were ever taken and not ended.
    """

    tasks: int
    finished: int
    each_once: bool
    order: str
    most_running: int
    most_taken: int


class _Order(list[int]):
    """A total that keeps every result apart."""

    def __add__(self, result: int, /) -> "_Order":  # type: ignore[override] # it is a total, not a list
        self.append(result)
        return self

    __iadd__ = __add__  # type: ignore[assignment]


class Spy(Sequence[int]):
    """Items and work, both of which count."""

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
        """Lasts for a time drawn by chance."""
        self._running += 1
        self._most_running = max(self._most_running, self._running)
        await asyncio.sleep(self._lasts_s[item])
        self._ended.append(item)
        self._running -= 1
        self._taken -= 1
        return item

    async def watch(self, run: Runner, limit: int) -> Seen:
        """Lets `run` do all the work."""
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
