"""The scenarios of `throughput.py`: one file for each `Scenario`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.findings import Finding
from harness.trial import Cores, Trial
from rivals import Rival


@dataclass(frozen=True, kw_only=True, slots=True)
class Bench:
    """The settings of the benchmark.

    Attributes:
        rivals: All installed clients.
        headgate: The command.
        before: The older command for comparison in `requests`.
        concurrencies: Requests in flight of `throughput`, `client` and `requests`.
        cells: The cells of `requests`.
        rounds: The bound of rounds; slow scenarios make fewer.
        seconds: The planned time of a trial of one of these.
        memory_rows: The rows of the small and the large job of `memory`.
        client_rows: The rows of `client` for its memory.
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
    """A module that measures one scenario."""

    def run(self, bench: Bench) -> Iterator[Trial]:
        """Makes the trials one after another."""

    def finding(self, trials: Sequence[Trial]) -> Finding:
        """Returns the finding."""
