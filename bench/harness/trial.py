"""One run of one client against one server: what it cost, and whether what it says is true."""

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
"""Characters of standard error that are quoted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Cores:
    """Where the two sides run."""

    server: int
    client: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Trial:
    """A record of what is kept.

    Attributes:
        scenario: Its file in `scenarios`.
        round: From 1.
        client: Name of the rival.
        concurrency: As asked.
        requests: As the client says, answered with status 200.
        requests_per_s: By the client's own clock, as `elapsed_s`.
        elapsed_s: Without the client's start and end.
        wall_s: With them.
        cpu_s: Of the client, with them.
        user_cpu_s: As far as it was not the kernel's.
        peak_rss_bytes: Of the client.
        server_requests: As the server says.
        server_connections: As the server says.
        server_cpu_s: Over `wall_s`.
        bound_by: As the client says.
        ideal_s: In the scenario `original`: what nothing can beat.
        cell: In the scenario `requests`: of what kind the requests are, and how many are in flight.
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
    bound_by: str = ""
    ideal_s: float | None = None
    cell: str = ""
    wrong: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a trial is to be.

    Attributes:
        requests: How many; bounds an exact client.
        seconds: Bounds the others.
        longest_s: A client that goes on for so long is killed, and wrong.
        cell: As in `Trial`.
        url: What is asked, without a slash at the end; the server's own if empty.
        body_bytes: Of an answer.
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
    """Makes a trial. The client's files are gone afterwards, unless it is given a `scratch` directory."""
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
        requests=claim.answered,
        requests_per_s=claim.answered / claim.elapsed_s if claim.elapsed_s else 0.0,
        elapsed_s=claim.elapsed_s,
        wall_s=ended.wall_s,
        cpu_s=ended.cpu_s,
        user_cpu_s=ended.user_cpu_s,
        peak_rss_bytes=ended.peak_rss_bytes,
        server_requests=seen,
        server_connections=after.connections - before.connections,
        server_cpu_s=server_cpu_s,
        bound_by=claim.bound_by,
        cell=plan.cell,
        wrong="; ".join(mistakes(plan, claim, exact=rival.exact, seen=seen, wall_s=ended.wall_s)),
    )


def _claim(rival: Rival, load: Load, ended: processes.Ended) -> Claim:
    if ended.code != 0:
        end = f"killed by signal {-ended.code}" if ended.code < 0 else f"exit code {ended.code}"
        return Claim(answered=0, elapsed_s=0.0, complaints=(f"{end}: {ended.stderr[-_TAIL:].strip()}",))
    try:
        return rival.claim(load, ended.stdout)
    except (KeyError, IndexError, OSError, json.JSONDecodeError) as error:
        return Claim(answered=0, elapsed_s=0.0, complaints=(f"its report cannot be read: {error!r}",))


def mistakes(plan: Plan, claim: Claim, *, exact: bool, seen: int, wall_s: float) -> list[str]:
    """What is wrong with a claim, beside a plan and the requests that the server has `seen`."""
    found = list(claim.complaints)
    if not claim.answered:
        found.append("nothing was answered")
    if exact and claim.answered != plan.requests:
        found.append(f"{claim.answered:,} of {plan.requests:,} requests were answered")
    # a client that is stopped by the clock leaves what is in flight uncounted
    unfinished = 0 if exact else plan.concurrency
    if not claim.answered <= seen <= claim.answered + unfinished:
        found.append(f"the server saw {seen:,} requests, the client counts {claim.answered:,}")
    if claim.body_bytes is not None and claim.body_bytes != claim.answered * plan.body_bytes:
        found.append(f"{claim.body_bytes:,} bytes of bodies, not {claim.answered * plan.body_bytes:,}")
    if claim.elapsed_s > wall_s:
        found.append(f"{claim.elapsed_s:.2f} s by its own clock, but it ran for {wall_s:.2f} s")
    return found


def right(trials: Iterable[Trial]) -> list[Trial]:
    """Those that count."""
    return [trial for trial in trials if not trial.wrong]


def requests_per_s(trial: Trial) -> float:
    """What most ratios are of."""
    return trial.requests_per_s


def cpu_s_per_request(trial: Trial) -> float:
    """Of the client, with its start and its end."""
    return trial.cpu_s / trial.requests


def median_ratio(
    trials: Sequence[Trial], client: str, reference: str, figure: Callable[[Trial], float] = requests_per_s
) -> float | None:
    """A figure of a client over that of a reference: one ratio for each round, then their median.

    Rounds minutes apart on a shared machine differ more than the clients of one round, so the ratio of two medians
    would compare the hours of the day. `None`: no round has both.
    """
    references = {trial.round: figure(trial) for trial in right(trials) if trial.client == reference}
    ratios = [
        figure(trial) / references[trial.round]
        for trial in right(trials)
        if trial.client == client and trial.round in references
    ]
    return statistics.median(ratios) if ratios else None
