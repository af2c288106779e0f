"""One run of one client against one server, with its cost and a check of its claims."""

import json
import statistics
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness import processes, servers
from rivals import Claim, Load, Rival

_TAIL: Final = 400
"""Characters of standard error in messages."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cores:
    """The cores of the server and of the client."""

    server: int
    client: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """The figures of a trial, which are saved.

    Attributes:
        scenario: Its file in `scenarios`.
        round: From 1.
        client: The name of the rival.
        concurrency: Requests in flight.
        requests: Responses with status 200, as the client counts.
        requests_per_s: Requests a second by the client's own clock, as `elapsed_s`.
        elapsed_s: The time without the client's start and end.
        wall_s: The time with them.
        cpu_s: The CPU time of the client, with its start and end.
        user_cpu_s: The part of it that was not the kernel's.
        peak_rss_bytes: The peak memory of the client.
        server_requests: The requests that the server counted.
        server_connections: The connections that the server counted.
        server_cpu_s: The CPU time of the server during `wall_s`.
        bottleneck: The bottleneck, from the client's summary.
        ideal_s: In the scenario `original`: the shortest possible time.
        cell: In the scenario `requests`: the kind of requests, and how many are in flight.
        wrong: Why this trial does not count; empty if it does.
    """

    scenario: str
    round: int
    client: str
    concurrency: int
    requests: int
    requests_per_s: float
    elapsed_s: float
    wall_s: float
    cpu_s: float
    peak_rss_bytes: int
    server_requests: int
    server_connections: int
    server_cpu_s: float
    user_cpu_s: float | None = None
    bottleneck: str = ""
    ideal_s: float | None = None
    cell: str = ""
    wrong: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """The plan of a trial.

    Attributes:
        requests: The number of requests, for an exact client.
        seconds: The time, for other clients.
        longest_s: The time after which the client is killed, which is a mistake.
        cell: As in `Trial`.
        url: The URL, without a slash at the end; the server's own if empty.
        body_bytes: The size of a response body.
    """

    scenario: str
    round: int
    concurrency: int
    requests: int
    seconds: float
    longest_s: float
    cell: str = ""
    url: str = ""
    body_bytes: int = len(servers.BODY)


def attempt(plan: Plan, rival: Rival, server: servers.Server, cores: Cores, scratch: Path | None = None) -> Trial:
    """Makes a trial, and removes the client's files, unless there is a `scratch` directory for them."""
    if scratch is None:
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
            return attempt(plan, rival, server, cores, Path(directory))
    load = Load(
        url=plan.url or server.url,
        requests=plan.requests,
        seconds=plan.seconds,
        concurrency=plan.concurrency,
        scratch=scratch,
    )
    before, cpu_before_s = servers.settle(server), processes.cpu_s(server.pid)
    ended = processes.run(rival.command(load), core=cores.client, longest_s=plan.longest_s)
    server_cpu_s, after = processes.cpu_s(server.pid) - cpu_before_s, servers.settle(server)
    claim = _claim(rival, load, ended)
    seen = after.requests - before.requests
    return Trial(
        scenario=plan.scenario,
        round=plan.round,
        client=rival.name,
        concurrency=plan.concurrency,
        requests=claim.succeeded,
        requests_per_s=claim.succeeded / claim.elapsed_s if claim.elapsed_s else 0.0,
        elapsed_s=claim.elapsed_s,
        wall_s=ended.wall_s,
        cpu_s=ended.cpu_s,
        user_cpu_s=ended.user_cpu_s,
        peak_rss_bytes=ended.peak_rss_bytes,
        server_requests=seen,
        server_connections=after.connections - before.connections,
        server_cpu_s=server_cpu_s,
        bottleneck=claim.bottleneck,
        cell=plan.cell,
        wrong="; ".join(mistakes(plan, claim, exact=rival.exact, seen=seen, wall_s=ended.wall_s)),
    )


def _claim(rival: Rival, load: Load, ended: processes.Ended) -> Claim:
    if ended.code != 0:
        end = f"killed by signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        return Claim(succeeded=0, elapsed_s=0.0, complaints=(f"{end}: {ended.stderr[-_TAIL:].strip()}",))
    try:
        return rival.claim(load, ended.stdout)
    except (KeyError, IndexError, OSError, json.JSONDecodeError) as error:
        return Claim(succeeded=0, elapsed_s=0.0, complaints=(f"its report cannot be read: {error!r}",))


def mistakes(plan: Plan, claim: Claim, *, exact: bool, seen: int, wall_s: float) -> list[str]:
    """Returns what is wrong with a claim, by the plan and the requests that the server has `seen`."""
    found = list(claim.complaints)
    if not claim.succeeded:
        found.append("nothing succeeded")
    if exact and claim.succeeded != plan.requests:
        found.append(f"{claim.succeeded:,} of {plan.requests:,} requests succeeded")
    # A client that is stopped by the clock does not count requests in flight.
    unfinished = 0 if exact else plan.concurrency
    if not claim.succeeded <= seen <= claim.succeeded + unfinished:
        found.append(f"the server saw {seen:,} requests, the client counts {claim.succeeded:,}")
    if claim.body_bytes is not None and claim.body_bytes != claim.succeeded * plan.body_bytes:
        found.append(f"{claim.body_bytes:,} bytes of bodies, not {claim.succeeded * plan.body_bytes:,}")
    if claim.elapsed_s > wall_s:
        found.append(f"{claim.elapsed_s:.2f} s by its own clock, but it ran for {wall_s:.2f} s")
    return found


def right(trials: Iterable[Trial]) -> list[Trial]:
    """Returns the trials that count."""
    return [trial for trial in trials if not trial.wrong]


def requests_per_s(trial: Trial) -> float:
    """Returns the requests a second, of which most ratios are."""
    return trial.requests_per_s


def cpu_s_per_request(trial: Trial) -> float:
    """Returns the CPU seconds of a request, with the client's start and end."""
    return trial.cpu_s / trial.requests


def median_ratio(
    trials: Sequence[Trial], client: str, reference: str, figure: Callable[[Trial], float] = requests_per_s
) -> float | None:
    """Returns the median of the ratios of a client's figure to that of a reference in the same round.

    Rounds minutes apart on a shared machine differ more than the clients of one round, so the ratio of two medians
    would compare the hours of the day. It is `None` if no round has both.
    """
    references = {trial.round: figure(trial) for trial in right(trials) if trial.client == reference}
    ratios = [
        figure(trial) / references[trial.round]
        for trial in right(trials)
        if trial.client == client and trial.round in references
    ]
    return statistics.median(ratios) if ratios else None
