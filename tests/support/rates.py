"""Tasks that spend costs at a rate, and what must be true of what was granted to them."""

import asyncio
import math
from itertools import accumulate

from headgate import Rate


async def turns_of_the_loop(count: int = 5) -> None:
    """Lets everything happen that needs no time."""
    for _ in range(count):
        await asyncio.sleep(0)


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Spenders:
    """Tasks that ask a rate for a cost each, once.

    Attributes:
        asked: When each asked, and for what, in this order.
        granted: When each was served, and with what, in the order in which they went on.
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self.asked: list[tuple[float, float]] = []
        self.granted: list[tuple[float, float]] = []
        self._served_at_s: dict[int, float] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def come(self, cost: float = 1) -> None:
        self.tasks.append(asyncio.create_task(self._spend(cost)))

    def cancel(self, index: int) -> None:
        if index < len(self.tasks):
            self.tasks[index].cancel()

    async def _spend(self, cost: float) -> None:
        index = len(self.asked)
        self.asked.append((now_s(), cost))
        await self._rate.acquire(cost)
        self.granted.append((now_s(), cost))
        self._served_at_s[index] = now_s()

    def served_at_s(self) -> list[float]:
        """When each was served that was, in the order in which they asked."""
        return [self._served_at_s[index] for index in sorted(self._served_at_s)]

    async def leave(self) -> None:
        await asyncio.gather(*self.tasks, return_exceptions=True)


class SpiedRate(Rate):
    """Remembers when it granted what: those who waited run a little later, and note that time."""

    def __init__(self, amount: float, *, burst: float) -> None:
        super().__init__(amount, burst=burst)
        self.spent: list[tuple[float, float]] = []

    def _try_take(self, amount: float) -> bool:
        taken = super()._try_take(amount)
        if taken:
            self.spent.append((now_s(), amount))
        return taken


def never_more_than(granted: list[tuple[float, float]], *, burst: float, per_s: float, late_s: float = 0.0) -> bool:
    """Whether in no window, from any grant to any later one, more was granted than a bucket holds and gets."""
    sums = [0.0, *accumulate(cost for _, cost in granted)]
    worst = -math.inf  # of the windows that end with a grant, what the one that begins worst begins with
    for index, (at_s, _) in enumerate(granted):
        worst = max(worst, per_s * at_s - sums[index])
        if sums[index + 1] + worst > burst + per_s * (at_s + late_s) + 1e-6:
            return False
    return True
