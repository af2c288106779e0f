"""Formats figures as Markdown."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from harness.trial import Trial

ABSENT: Final = "–"  # noqa: RUF001 - an en dash


@dataclass(frozen=True, slots=True)
class Target:
    """A promised bound; `measured` is `None` if it could not be measured."""

    promise: str
    measured: float | None
    shown: str
    met: bool


def at_least(promise: str, measured: float | None, bound: float) -> Target:
    """Returns the target for a ratio that should not be lower."""
    return Target(
        f"{promise}: at least {bound:g}", measured, number(measured, ".2f"), measured is not None and measured >= bound
    )


def at_most(promise: str, measured: float | None, bound: float, unit: str, form: str = ".1f") -> Target:
    """Returns the target for a figure that should not be higher."""
    return Target(
        f"{promise}: at most {bound:g} {unit}",
        measured,
        ABSENT if measured is None else f"{measured:{form}} {unit}",
        measured is not None and measured <= bound,
    )


def targets_table(targets: Iterable[Target]) -> str:
    """Returns a table of targets and measured figures."""
    rows = [
        [target.promise, target.shown, "not measured" if target.measured is None else "met" if target.met else "MISSED"]
        for target in targets
    ]
    return table(["target", "measured", ""], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table with the first column left-aligned and figures right-aligned."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float | None, form: str) -> str:
    """Returns the formatted figure, or a dash if there is none."""
    return ABSENT if value is None else format(value, form)


def median(values: Iterable[float]) -> float | None:
    """Returns the median, or `None` without values."""
    known = list(values)
    return statistics.median(known) if known else None


def mb(size: float) -> float:
    """Returns a size in millions of bytes."""
    return size / 1e6


class Checked(Protocol):
    """A run of a round; `wrong` is why it does not count, and empty if it does."""

    @property
    def round(self) -> int: ...  # noqa: D102 - described above

    @property
    def wrong(self) -> str: ...  # noqa: D102


R = TypeVar("R", bound=Checked)


def median_of_pairs(runs: Iterable[R], references: Iterable[R], compare: Callable[[R, R], float]) -> float | None:
    """Compares the two runs of each round, and returns the median, or `None` if no round has both.

    Rounds minutes apart on a shared machine differ more than the clients of one round, so the ratio of two medians
    would compare the hours of the day.
    """
    by_round = {run.round: run for run in references if not run.wrong}
    return median(compare(run, by_round[run.round]) for run in runs if not run.wrong and run.round in by_round)


def counted(trials: Sequence[Checked]) -> str:
    """Returns how many trials the figures of a row have."""
    wrong = sum(1 for trial in trials if trial.wrong)
    return f"**{wrong} of {len(trials)} WRONG**" if wrong else str(len(trials))


def mistakes(trials: Iterable[Trial]) -> list[str]:
    """Returns a line for every trial that does not count."""
    return [
        f"{trial.client}, {trial.cell or f'concurrency {trial.concurrency:,}'}, round {trial.round}: {trial.wrong}"
        for trial in trials
        if trial.wrong
    ]
