"""Runs of a client in processes of their own, and the figures of many such runs."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from callers.clients import Client
from harness import processes, servers, tables
from harness.servers import Server

_PROGRAM: Final = Path(__file__).parents[1] / "http_crossing_worker.py"
_LONGEST_S: Final = 60.0
_BEFORE: Final = 100
_LEAST_BEFORE: Final = 3
_TAIL: Final = 400
"""Characters of standard error that are quoted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What a client is to do; either bound ends it.

    Attributes:
        host: Of the server.
        port: Of the server.
        body: Of every answer.
        at_once: Callers, each of which makes one request after another.
        seconds: After which no request begins.
        most: Requests, those before the clock starts left out.
    """

    host: str
    port: int
    body: bytes
    at_once: int
    seconds: float
    most: int

    @property
    def before(self) -> int:
        """Requests of each caller before the clock starts."""
        return max(_LEAST_BEFORE, _BEFORE // self.at_once)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One process.

    Attributes:
        client: Its name.
        caller: Where it is called from.
        at_once: As in `Load`.
        round: From 1.
        requests: That were timed.
        per_s: By the clock, of all callers together.
        wall_us: That a caller waits for a request, on average.
        median_us: The same, of half of the requests at most.
        p99_us: The same, of 99 % of them.
        cpu_us: Of a request, of all threads of the process.
        wrong: Why this run does not count; empty if it does.
    """

    client: str
    caller: str
    at_once: int
    round: int
    requests: int = 0
    per_s: float = 0.0
    wall_us: float = 0.0
    median_us: float = 0.0
    p99_us: float = 0.0
    cpu_us: float = 0.0
    wrong: str = ""


Figure = Callable[[Run], float]


def attempt(client: Client, load: Load, round_: int, core: int, server: Server | None = None) -> Run:
    """Makes a run on a core; a server that counts what it sees is asked whether it has seen the same."""
    before = servers.settle(server).requests if server else 0
    asked = dataclasses.asdict(load) | {"client": client.name, "body": load.body.decode(), "before": load.before}
    ended = processes.run([sys.executable, str(_PROGRAM), json.dumps(asked)], core=core, longest_s=_LONGEST_S)
    run = Run(client=client.name, caller=client.caller, at_once=load.at_once, round=round_)
    if ended.code != 0:
        run = dataclasses.replace(run, wrong=f"exit code {ended.code}: {' '.join(ended.stderr.split())[-_TAIL:]}")
    else:
        said = json.loads(ended.stdout)
        seen = server.counted().requests - before if server else None
        run = measured(run, said, load.before * load.at_once, seen)
    print(
        f"{run.at_once:5,} from {run.caller:8} round {run.round}: {run.client:40} {run.per_s:9,.0f} requests/s, "
        f"{run.wall_us:9.1f} µs each, {run.cpu_us:7.1f} of CPU {run.wrong}",
        file=sys.stderr,
    )
    return run


def measured(run: Run, said: Mapping[str, Any], before: int, seen: int | None) -> Run:
    """With what its process said.

    Args:
        run: Without figures.
        said: By its process.
        before: Requests that were not timed.
        seen: All that the server has counted meanwhile; `None`: it does not count.
    """
    requests, expected = said["requests"], said["requests"] + before
    return dataclasses.replace(
        run,
        requests=requests,
        per_s=requests / said["elapsed_s"],
        wall_us=1e6 * said["elapsed_s"] * run.at_once / requests,
        median_us=1e6 * said["median_s"],
        p99_us=1e6 * said["p99_s"],
        cpu_us=1e6 * said["cpu_s"] / requests,
        wrong="" if seen in (None, expected) else f"the server has seen {seen:,} requests, not {expected:,}",
    )


def of(runs: Iterable[Run], client: Client, at_once: int) -> list[Run]:
    """Those of one cell."""
    return [run for run in runs if (run.client, run.at_once) == (client.name, at_once)]


def median(runs: Iterable[Run], figure: Figure) -> float | None:
    """Of those that count."""
    return tables.median(figure(run) for run in runs if not run.wrong)


def median_of_pairs(runs: Iterable[Run], others: Iterable[Run], compare: Callable[[Run, Run], float]) -> float | None:
    """Compares the two runs of each round, and takes the median. `None`: no round has both."""
    beside = {run.round: run for run in others if not run.wrong}
    return tables.median(compare(run, beside[run.round]) for run in runs if not run.wrong and run.round in beside)


def ratio(runs: Sequence[Run], pair: tuple[Client, Client], at_once: int, figure: Figure) -> float | None:
    """Of the first client's figure to the other's in the same round."""
    one, other = (of(runs, client, at_once) for client in pair)
    return median_of_pairs(one, other, lambda left, right: figure(left) / figure(right))


def row(runs: Sequence[Run], figures: Iterable[tuple[Figure, str]]) -> list[str]:
    """Medians, each in its form, and how many runs they stand on."""
    return [*(tables.number(median(runs, figure), form) for figure, form in figures), tables.counted(runs)]


def raw(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """For JSON."""
    return [dataclasses.asdict(run) for run in runs]


def wrong_list(runs: Iterable[Run]) -> list[str]:
    """Every run that does not count, and why."""
    return [f"{run.client}, {run.at_once:,} at once, round {run.round}: {run.wrong}" for run in runs if run.wrong]
