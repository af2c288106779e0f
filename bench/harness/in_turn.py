"""Runs several clients in turn, so that other work of the machine affects all of them."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from harness.servers import BODY, Server
from harness.trial import Cores, Plan, Trial, attempt
from rivals import Rival

_WARM_UP_SHARE: Final = 0.5
_LONGEST: Final = 20
"""A trial may take this many times its planned time."""
_LEAST_LONGEST_S: Final = 60.0

Entrant = TypeVar("Entrant")


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """A series of trials of several clients, equally many of each.

    Attributes:
        scenario: As in `Trial`; the next, too.
        concurrency: Requests in flight.
        rounds: The number of rounds.
        seconds: The planned time of a trial.
        least: The least requests of a trial, however long they take.
        cell: The name of this series in the scenario.
        url: As in `Plan`; the next, too.
        body_bytes: The size of a response body.
    """

    scenario: str
    concurrency: int
    rounds: int
    seconds: float
    least: int = 1
    cell: str = ""
    url: str = ""
    body_bytes: int = len(BODY)


def rounds(entrants: Sequence[Entrant], how_many: int) -> Iterator[tuple[int, Entrant]]:
    """Yields each entrant once in each round.

    Each round starts with the next entrant. Over as many rounds as there are entrants, or twice as many where their
    number is odd, each follows each other one equally often (a Williams design): what one client leaves behind, such
    as 10,000 closed connections, slows no other client more than the rest.
    """
    number = len(entrants)
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(number)]
    for round_ in range(1, how_many + 1):
        is_mirrored = number % 2 == 1 and round_ % 2 == 0
        for place in zigzag:
            yield round_, entrants[(round_ + (-place if is_mirrored else place)) % number]


def trials(series: Series, rivals: Sequence[Rival], server: Server, cores: Cores) -> Iterator[Trial]:
    """Runs a warm-up of each client, then rounds, and yields their trials.

    The number of requests of a trial follows from the rate of the client's previous one: clients that
    count requests then run as long as those that are stopped by the clock.
    """
    per_s: dict[str, float] = {}
    for rival in rivals:
        warm_up = attempt(_plan(series, 0, rival.guess_per_s, _WARM_UP_SHARE), rival, server, cores)
        per_s[rival.name] = warm_up.requests_per_s or rival.guess_per_s
    for round_, rival in rounds(rivals, series.rounds):
        trial = attempt(_plan(series, round_, per_s[rival.name]), rival, server, cores)
        per_s[rival.name] = trial.requests_per_s or per_s[rival.name]
        print_trial(trial)
        yield trial


def print_trial(trial: Trial) -> None:
    """Prints a finished trial to standard error."""
    end = f"WRONG: {trial.wrong}" if trial.wrong else f"{trial.requests_per_s:9,.0f} requests/s"
    print(
        f"{trial.cell or trial.scenario:12} {trial.round}  c={trial.concurrency:<6} {trial.client:18} "
        f"{trial.requests:9,} in {trial.elapsed_s:6.2f} s {trial.peak_rss_bytes / 1e6:6.1f} MB  {end}",
        file=sys.stderr,
    )


def _plan(series: Series, round_: int, per_s: float, share: float = 1.0) -> Plan:
    seconds = series.seconds * share
    return Plan(
        scenario=series.scenario,
        round=round_,
        concurrency=series.concurrency,
        requests=max(series.least, round(per_s * seconds)),
        seconds=seconds,
        longest_s=max(_LEAST_LONGEST_S, series.seconds * _LONGEST),
        cell=series.cell,
        url=series.url,
        body_bytes=series.body_bytes,
    )
