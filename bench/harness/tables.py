"""Figures as Markdown."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from harness.trial import Trial

ABSENT: Final = "–"  # noqa: RUF001 - an en dash


@dataclass(frozen=True, slots=True)
class Target:
    """Something that was promised; `measured` is `None` where it could not be."""

    promise: str
    measured: float | None
    shown: str
    met: bool


def at_least(promise: str, measured: float | None, bound: float) -> Target:
    """A ratio that should not be lower."""
    return Target(
        f"{promise}: at least {bound:g}", measured, number(measured, ".2f"), measured is not None and measured >= bound
    )


def at_most(promise: str, measured: float | None, bound: float, unit: str, form: str = ".1f") -> Target:
    """A figure that should not be higher."""
    return Target(
        f"{promise}: at most {bound:g} {unit}",
        measured,
        ABSENT if measured is None else f"{measured:{form}} {unit}",
        measured is not None and measured <= bound,
    )


def targets_table(targets: Iterable[Target]) -> str:
    """Each with what was measured."""
    rows = [
        [target.promise, target.shown, "not measured" if target.measured is None else "met" if target.met else "MISSED"]
        for target in targets
    ]
    return table(["target", "measured", ""], rows)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column to the left, figures to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def number(value: float | None, form: str) -> str:
    """A figure, or the sign of its absence."""
    return ABSENT if value is None else format(value, form)


def median(values: Iterable[float]) -> float | None:
    """`None` of nothing."""
    known = list(values)
    return statistics.median(known) if known else None


def mb(size: float) -> float:
    """In millions of bytes."""
    return size / 1e6


class Checked(Protocol):
    """A run that says why it does not count; empty if it does."""

    @property
    def wrong(self) -> str: ...  # noqa: D102 - described above


def counted(trials: Sequence[Checked]) -> str:
    """How many trials the figures of a row stand on."""
    wrong = sum(1 for trial in trials if trial.wrong)
    return f"**{wrong} of {len(trials)} WRONG**" if wrong else str(len(trials))


def mistakes(trials: Iterable[Trial]) -> list[str]:
    """A line for every trial that does not count."""
    return [
        f"{trial.client}, {trial.cell or f'concurrency {trial.concurrency:,}'}, round {trial.round}: {trial.wrong}"
        for trial in trials
        if trial.wrong
    ]
