"""Tasks that spend costs at a rate, and a check of what was granted to them."""

import asyncio
import math
from itertools import accumulate

from headgate import Rate


async def turns_of_the_loop(count: int = 5) -> None:
    """Lets everything run that needs no time."""
    for _ in range(count):
        await asyncio.sleep(0)


def now_s() -> float:
    return asyncio.get_running_loop().time()


class Spenders:
    """Tasks that acquire a cost each from a rate.

    Attributes:
        calls: The time and the cost of each call, in their order.
        granted: The time and the cost of each grant, in the order in which tasks continued.
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self.calls: list[tuple[float, float]] = []
        self.granted: list[tuple[float, float]] = []
        self._served_at_s: dict[int, float] = {}
        self.tasks: list[asyncio.Task[None]] = []

    def come(self, cost: float = 1) -> None:
        self.tasks.append(asyncio.create_task(self._spend(cost)))

    def cancel(self, index: int) -> None:
        if index < len(self.tasks):
            self.tasks[index].cancel()

    async def _spend(self, cost: float) -> None:
        index = len(self.calls)
        self.calls.append((now_s(), cost))
        await self._rate.acquire(cost)
        self.granted.append((now_s(), cost))
        self._served_at_s[index] = now_s()

    def served_at_s(self) -> list[float]:
        """Returns when the served tasks were served, in the order of their calls."""
        return [self._served_at_s[index] for index in sorted(self._served_at_s)]

    async def leave(self) -> None:
        await asyncio.gather(*self.tasks, return_exceptions=True)


class SpiedRate(Rate):
    """Records each grant when it is made: the waiting tasks run a little later, and note that later time."""

    def __init__(self, amount: float, *, burst: float) -> None:
        super().__init__(amount, burst=burst)
        self.spent: list[tuple[float, float]] = []

    def _try_take(self, amount: float) -> bool:
        taken = super()._try_take(amount)
        if taken:
            self.spent.append((now_s(), amount))
        return taken


def never_more_than(granted: list[tuple[float, float]], *, burst: float, per_s: float, late_s: float = 0.0) -> bool:
    """Returns whether every window from one grant to a later one has at most what the bucket holds and gains."""
    sums = [0.0, *accumulate(cost for _, cost in granted)]
    worst = -math.inf  # the highest value at the beginning of a window, of those that end with this grant
    for index, (at_s, _) in enumerate(granted):
        worst = max(worst, per_s * at_s - sums[index])
        if sums[index + 1] + worst > burst + per_s * (at_s + late_s) + 1e-6:
            return False
    return True
