"""What it costs that each row asks another host than the row before: many hosts in turn, beside as many rows of one."""

import argparse
import dataclasses
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from harness import servers, tables
from harness.answers import Answer
from harness.servers import LocalServer, ServerError
from harness.trial import Cores, Plan, Trial, attempt, cpu_s_per_request, median_ratio, right
from rivals.headgate import Headgate

HOSTS: Final = 1_000
ONE: Final = "one host"
MANY: Final = f"{HOSTS:,} hosts in turn"
_LEAST_RATIO: Final = 0.9
_MOST_CPU: Final = 1.11
_WARM_UP_ROWS: Final = 20 * HOSTS
_LONGEST: Final = 20
"""Times what a trial should take."""
_NOTE: Final = f"""\
One core for headgate, one for `headgate serve`, which listens at every loopback address. The URLs stand in a file and
are all of one length; nothing is kept. A worker keeps no more connections than it may have requests in flight. So with
fewer in flight than there are hosts, the connection to a host is closed before its turn comes again: with 64 in flight,
the figures of {HOSTS:,} hosts are those of making a connection for each request, as the column of connections says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Round:
    number: int
    concurrency: int
    rows: int
    seconds: float


def ask(arguments: argparse.Namespace) -> Answer:
    """For each concurrency a warm-up, then rounds of both."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        raise ServerError("hosts needs two cores, one for the server and one for the client; this process may use one")
    if why := Headgate(arguments.headgate, "none").missing():
        raise ServerError(why)
    servers.raise_open_files(max(*arguments.concurrency, HOSTS))
    where = Cores(server=cores[0], client=cores[-1])
    trials: list[Trial] = []
    with servers.many_hosts_server(arguments.headgate, where.server) as server:
        for concurrency in arguments.concurrency:
            first = _Round(number=0, concurrency=concurrency, rows=_WARM_UP_ROWS, seconds=arguments.seconds)
            per_s = max(trial.requests_per_s for trial in _make(first, arguments.headgate, server, where))
            rows = max(_WARM_UP_ROWS, round(per_s * arguments.seconds / HOSTS) * HOSTS)
            for number in range(1, arguments.rounds + 1):
                round_ = dataclasses.replace(first, number=number, rows=rows)
                trials += _make(round_, arguments.headgate, server, where)
    return answer(trials)


def _make(round_: _Round, program: Path, server: LocalServer, cores: Cores) -> list[Trial]:
    """Both, begun by the other one than the round before."""
    trials = []
    for label, hosts in ((ONE, 1), (MANY, HOSTS))[:: 1 if round_.number % 2 else -1]:
        plan = Plan(
            scenario="hosts",
            round=round_.number,
            concurrency=round_.concurrency,
            requests=round_.rows,
            seconds=round_.seconds,
            longest_s=round_.seconds * _LONGEST,
        )
        with tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch:
            urls = Path(scratch, "urls.txt")
            with urls.open("w") as lines:
                lines.writelines(f"{url}\n" for url in islice(cycle(host_urls(hosts, server.port)), round_.rows))
            trial = attempt(plan, Headgate(program, "none", urls=urls), server, cores, Path(scratch))
        trials.append(dataclasses.replace(trial, client=label))
        print(
            f"hosts {trial.round}  c={trial.concurrency:<6} {label:20} {trial.requests:9,} in {trial.elapsed_s:6.2f} s "
            f"{trial.requests_per_s:9,.0f} requests/s {trial.wrong}",
            file=sys.stderr,
        )
    return trials


def host_urls(hosts: int, port: int) -> list[str]:
    """One for each host, all of one length. The path is none that the server knows, so that it answers shortly."""
    return [f"http://127.0.{index // 100}.{100 + index % 100}:{port}/row" for index in range(hosts)]


def answer(trials: Sequence[Trial]) -> Answer:
    """A promise and a table for each concurrency."""
    targets = []
    rows = []
    for concurrency in dict.fromkeys(trial.concurrency for trial in trials):
        own = [trial for trial in trials if trial.concurrency == concurrency]
        requests_ratio = median_ratio(own, MANY, ONE)
        cpu_ratio = median_ratio(own, MANY, ONE, figure=cpu_s_per_request)
        beside = f"{MANY} / {ONE}, c = {concurrency:,}"
        targets += [
            tables.at_least(f"requests/s, {beside}", requests_ratio, _LEAST_RATIO),
            tables.at_most(f"CPU a request, {beside}", cpu_ratio, _MOST_CPU, "times", form=".2f"),
        ]
        rows += [
            _row(ONE, own, (1.0, 1.0)),
            _row(MANY, own, (requests_ratio, cpu_ratio)),
        ]
    head = ["", "in flight", "requests/s", "lowest to highest", "ratio", "CPU µs a request", "ratio"]
    head += ["its core busy", "server's core busy", "connections for 1,000 requests", "trials"]
    return Answer(
        title=f"{HOSTS:,} hosts in turn beside one host",
        targets=targets,
        text=f"{_NOTE}\n\n{tables.table(head, rows)}",
        raw=[dataclasses.asdict(trial) for trial in trials],
        wrong=tables.mistakes(trials),
    )


def _row(label: str, trials: Sequence[Trial], ratios: tuple[float | None, float | None]) -> list[str]:
    own = [trial for trial in trials if trial.client == label]
    good = right(own)
    rates = [trial.requests_per_s for trial in good]
    return [
        label,
        f"{own[0].concurrency:,}",
        tables.number(tables.median(rates), ",.0f"),
        f"{min(rates):,.0f} to {max(rates):,.0f}" if rates else tables.ABSENT,
        tables.number(ratios[0], ".2f"),
        tables.number(tables.median(1e6 * cpu_s_per_request(trial) for trial in good), ".1f"),
        tables.number(ratios[1], ".2f"),
        tables.number(tables.median(trial.cpu_s / trial.wall_s for trial in good), ".0%"),
        tables.number(tables.median(trial.server_cpu_s / trial.wall_s for trial in good), ".0%"),
        tables.number(tables.median(1_000 * trial.server_connections / trial.requests for trial in good), ".0f"),
        tables.counted(own),
    ]
