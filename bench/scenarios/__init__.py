"""What is measured: one file for each question, all of the shape of `Scenario`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.findings import Finding
from harness.trial import Cores, Trial
from rivals import Rival


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """What was asked for.

    Attributes:
        rivals: Every client that is there.
        headgate: The command.
        before: The command to compare it with in `requests`.
        concurrencies: Of `throughput`, `client` and `requests`.
        cells: Of `requests`.
        rounds: At the most; the slow scenarios make fewer.
        seconds: How long a trial of one of these is to take.
        memory_rows: The small and the large job of `memory`.
        client_rows: Of `client`, for its memory.
    """

    cores: Cores
    rivals: Sequence[Rival]
    headgate: Path
    before: Path | None
    cells: Sequence[str]
    concurrencies: Sequence[int]
    rounds: int
    seconds: float
    memory_rows: tuple[int, int]
    client_rows: tuple[int, ...]


class Scenario(Protocol):
    """A module of this package."""

    def run(self, bench: Bench) -> Iterator[Trial]:
        """Makes the trials one after another."""

    def finding(self, trials: Sequence[Trial]) -> Finding:
        """What was found."""
