"""Runs of a client in separate processes, and the figures of many such runs."""

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
_WARM_UP: Final = 100
_MIN_WARM_UP: Final = 3
_TAIL: Final = 400
"""Characters of standard error in messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """The load of a client; it ends at either bound.

    Attributes:
        host: The host of the server.
        port: The port of the server.
        body: The body of every response.
        at_once: Callers, each of which makes one request after another.
        seconds: The time after which no request begins.
        most: The bound of requests, without those before the clock starts.
    """

    host: str
    port: int
    body: bytes
    at_once: int
    seconds: float
    most: int

    @property
    def before(self) -> int:
        """The requests of each caller before the clock starts."""
        return max(_MIN_WARM_UP, _WARM_UP // self.at_once)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """A run of a client in one process.

    Attributes:
        client: The name of the client.
        caller: From where it is called.
        at_once: As in `Load`.
        round: The round, from 1.
        requests: The timed requests.
        per_s: Requests a second of all callers together.
        wall_us: The mean time that a caller waits for a request.
        median_us: The median of that time.
        p99_us: The 99th percentile of that time.
        cpu_us: CPU time of a request, of all threads of the process.
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
    """Makes a run on a core, and compares its requests with the count of the server, if there is one."""
    before = servers.settle(server).requests if server else 0
    plan = dataclasses.asdict(load) | {"client": client.name, "body": load.body.decode(), "before": load.before}
    ended = processes.run([sys.executable, str(_PROGRAM), json.dumps(plan)], core=core, longest_s=_LONGEST_S)
    run = Run(client=client.name, caller=client.caller, at_once=load.at_once, round=round_)
    if ended.code != 0:
        run = dataclasses.replace(run, wrong=f"exit code {ended.code}: {' '.join(ended.stderr.split())[-_TAIL:]}")
    else:
        seen = server.counted().requests - before if server else None
        run = measured(run, json.loads(ended.stdout), load.before * load.at_once, seen)
    print(
        f"{run.at_once:5,} from {run.caller:8} round {run.round}: {run.client:40} {run.per_s:9,.0f} requests/s, "
        f"{run.wall_us:9.1f} µs each, {run.cpu_us:7.1f} of CPU {run.wrong}",
        file=sys.stderr,
    )
    return run


def measured(run: Run, figures: Mapping[str, Any], before: int, seen: int | None) -> Run:
    """Returns the run with the figures of its process.

    Args:
        run: The run without figures.
        figures: The figures of the process.
        before: Requests that were not timed.
        seen: All requests that the server has counted meanwhile; `None`: it does not count.
    """
    requests, expected = figures["requests"], figures["requests"] + before
    return dataclasses.replace(
        run,
        requests=requests,
        per_s=requests / figures["elapsed_s"],
        wall_us=1e6 * figures["elapsed_s"] * run.at_once / requests,
        median_us=1e6 * figures["median_s"],
        p99_us=1e6 * figures["p99_s"],
        cpu_us=1e6 * figures["cpu_s"] / requests,
        wrong="" if seen in (None, expected) else f"the server has seen {seen:,} requests, not {expected:,}",
    )


def of(runs: Iterable[Run], client: Client, at_once: int) -> list[Run]:
    """Returns the runs of one cell."""
    return [run for run in runs if (run.client, run.at_once) == (client.name, at_once)]


def median(runs: Iterable[Run], figure: Figure) -> float | None:
    """Returns the median of a figure of the runs that count."""
    return tables.median(figure(run) for run in runs if not run.wrong)


def ratio(runs: Sequence[Run], pair: tuple[Client, Client], at_once: int, figure: Figure) -> float | None:
    """Returns the median ratio of the first client's figure to the other's in the same round."""
    one, other = (of(runs, client, at_once) for client in pair)
    return tables.median_of_pairs(one, other, lambda left, right: figure(left) / figure(right))


def row(runs: Sequence[Run], figures: Iterable[tuple[Figure, str]]) -> list[str]:
    """Returns medians, each in its format, and the number of runs."""
    return [*(tables.number(median(runs, figure), form) for figure, form in figures), tables.counted(runs)]


def raw(runs: Iterable[Run]) -> list[dict[str, Any]]:
    """Returns the runs for JSON."""
    return [dataclasses.asdict(run) for run in runs]


def wrong_list(runs: Iterable[Run]) -> list[str]:
    """Returns every run that does not count, and why."""
    return [f"{run.client}, {run.at_once:,} at once, round {run.round}: {run.wrong}" for run in runs if run.wrong]
