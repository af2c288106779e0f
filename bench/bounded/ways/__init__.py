"""The ways of running many tasks, few at once: each a coroutine function of the shape of `Runner`.

A library has a file of its own, because only the process that measures it may load it.
"""

import importlib
import importlib.util
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast

from bounded.workloads import Work


class Total(Protocol):
    """What the results are added to: an `int`, or in a check something that remembers their order."""

    def __add__(self, result: int, /) -> "Total":
        """What `total += result` does."""


Runner: TypeAlias = Callable[[Work, Sequence[int], int, Total], Coroutine[Any, Any, Total]]
"""Work, its items, the limit, and a total to which it adds every result and which it returns."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """A row of the tables.

    Attributes:
        name: Of the row.
        where: File of this package and function in it, `recipes.floor`.
        guess_per_s: Tasks a second to expect of it: says how many make a run of a second.
        package: To be installed, and loaded before the memory of the empty process is taken.
        bounded: It takes a limit.
        collects: It adds the results up; else it drops them.
        ours: It keeps what headgate promises: the bound and the order are part of the answer.
        ordered: Results come in the order of the items.
    """

    name: str
    where: str
    guess_per_s: int
    package: str | None = None
    bounded: bool = True
    collects: bool = True
    ours: bool = False
    ordered: bool = False

    def runner(self) -> Runner:
        """Loads it."""
        module, _, function = self.where.partition(".")
        return cast("Runner", getattr(importlib.import_module(f"{__name__}.{module}"), function))

    def missing(self) -> str | None:
        """Why it cannot run here and how to get it; `None`: it can."""
        if self.package is None or importlib.util.find_spec(self.package):
            return None
        return f"no package {self.package}; run: pip install -r requirements/bench.txt"


FLOOR: Final = Way(name="the floor", where="recipes.floor", guess_per_s=150_000, collects=False)
FIXED_WORKERS: Final = Way(name="fixed workers", where="recipes.fixed_workers", guess_per_s=600_000)
GATHER: Final = Way(name="semaphore and gather", where="recipes.semaphore_and_gather", guess_per_s=30_000)
AMAP: Final = Way(name="headgate amap", where="ours.results", guess_per_s=150_000, package="headgate", ours=True)
AS_COMPLETED: Final = Way(
    name="headgate as_completed", where="ours.futures", guess_per_s=150_000, package="headgate", ours=True
)
AS_COMPLETED_FOR: Final = Way(
    name="headgate as_completed, plain for",
    where="ours.plain_futures",
    guess_per_s=150_000,
    package="headgate",
    ours=True,
)
LIBRARIES: Final = (
    Way(name="aiometer amap", where="aiometer_amap.run", guess_per_s=20_000, package="aiometer"),
    Way(name="aiostream map", where="aiostream_map.run", guess_per_s=10_000, package="aiostream"),
    Way(name="pypeln task.map", where="pypeln_map.run", guess_per_s=12_000, package="pypeln"),
    Way(name="anyio amap", where="anyio_amap.run", guess_per_s=30_000, package="anyio", bounded=False),
)
"""Those that have to be beaten."""
STREAMABLE: Final = Way(name="streamable map", where="streamable_map.run", guess_per_s=80_000, package="streamable")
RECIPES: Final = (
    Way(name="limited_as_completed of 2017", where="recipes.original", guess_per_s=100_000),
    GATHER,
    Way(name="asyncio.wait refill", where="recipes.wait_refill", guess_per_s=130_000),
    Way(name="TaskGroup and semaphore", where="recipes.task_group_and_semaphore", guess_per_s=130_000),
)
WAYS: Final = (FLOOR, AMAP, AS_COMPLETED, AS_COMPLETED_FOR, *RECIPES, *LIBRARIES, STREAMABLE, FIXED_WORKERS)


OPTIONS: Final = tuple(
    Way(name=name, where=f"options.{function}", guess_per_s=80_000, package="headgate", ours=True, ordered=ordered)
    for name, function, ordered in (
        ("ordered=True", "ordered", True),
        ('errors="yield"', "outcomes", False),
        ("timeout_s=10", "timeout", False),
        ("retry=Retry(3)", "retry", False),
        ("rate=Rate(1e9, burst=1e9)", "rate", False),
        ("key=, per_key=", "key", False),
        ("limit=ConcurrencyLimit(...)", "shared_limit", False),
    )
)


def named(name: str) -> Way:
    """The one of this name, of all that there are."""
    return next(way for way in (*WAYS, *OPTIONS) if way.name == name)
