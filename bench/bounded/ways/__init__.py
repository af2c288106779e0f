"""The ways of running many tasks, few at once: each is a coroutine function with the signature of `Runner`."""

import importlib
import importlib.util
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, cast

from bounded.workloads import Work


class Total(Protocol):
    """The sum of the results: an `int`, or in a check an object that records their order."""

    def __add__(self, result: int, /) -> "Total":
        """Adds a result, for `total += result`."""


Runner: TypeAlias = Callable[[Work, Sequence[int], int, Total], Coroutine[Any, Any, Total]]
"""Runs work for all items with a limit, adds every result to a total, and returns the total."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Way:
    """A row of the tables.

    Attributes:
        name: The name of the row.
        where: The file in this package and the function in it, such as `recipes.floor`.
        guess_per_s: The expected tasks a second, from which the number of tasks of a run follows.
        package: The package that it needs, which is loaded before the memory of the empty process is measured.
        bounded: Whether it has a limit.
        collects: Whether it adds the results up; otherwise it drops them.
        ours: Whether it is headgate, of which the bound and the order are checked.
        ordered: Whether results come in the order of the items.
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
        """Imports and returns the function."""
        module, _, function = self.where.partition(".")
        return cast("Runner", getattr(importlib.import_module(f"{__name__}.{module}"), function))

    def missing(self) -> str | None:
        """Returns why it can't run here and how to install it, or `None` if it can."""
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
    Way(name="aiometer amap", where="libraries.aiometer_amap", guess_per_s=20_000, package="aiometer"),
    Way(name="aiostream map", where="libraries.aiostream_map", guess_per_s=10_000, package="aiostream"),
    Way(name="pypeln task.map", where="libraries.pypeln_map", guess_per_s=12_000, package="pypeln"),
    Way(name="anyio amap", where="libraries.anyio_amap", guess_per_s=30_000, package="anyio", bounded=False),
)
"""The libraries that have targets."""
STREAMABLE: Final = Way(
    name="streamable map", where="libraries.streamable_map", guess_per_s=80_000, package="streamable"
)
RECIPES: Final = (
    Way(name="limited_as_completed of 2017", where="recipes.original", guess_per_s=100_000),
    GATHER,
    Way(name="asyncio.wait refill", where="recipes.wait_refill", guess_per_s=130_000),
    Way(name="TaskGroup and semaphore", where="recipes.task_group_and_semaphore", guess_per_s=130_000),
)
WAYS: Final = (FLOOR, AMAP, AS_COMPLETED, AS_COMPLETED_FOR, *RECIPES, *LIBRARIES, STREAMABLE, FIXED_WORKERS)


OPTIONS: Final = tuple(
    Way(name=name, where=f"ours.{function}", guess_per_s=80_000, package="headgate", ours=True, ordered=ordered)
    for name, function, ordered in (
        ("ordered=True", "ordered", True),
        ('errors="yield"', "outcomes", False),
        ("timeout=10", "timeout", False),
        ("retry=Retry(3)", "retry", False),
        ("rate=Rate(1e9, burst=1e9)", "rate", False),
        ("key=, per_key=", "key", False),
        ("limit=ConcurrencyLimit(...)", "shared_limit", False),
    )
)


def named(name: str) -> Way:
    """Returns the way with this name."""
    return next(way for way in (*WAYS, *OPTIONS) if way.name == name)
