"""Measures whether dead and slow hosts, and hosts that send `Retry-After`, throttle healthy ones: fifty in all."""

import argparse
import random
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from considerate import fetching, server_log
from considerate.fetching import Client, Fetched
from considerate.server_log import Entry
from harness import many_hosts, tables
from harness.findings import Finding

PER_HOST: Final = 4
DELAY_S: Final = 0.05
SLOW_S: Final = 1.0
PAUSE_S: Final = 2.0
BURST: Final = 5
DOWN_AFTER_S: Final = 20.0
_CONNECT_S: Final = 5.0
_IN_FLIGHT: Final = 256
_ON_ITS_WAY_S: Final = 0.1
_CLIENT: Final = (
    *("-c", str(_IN_FLIGHT), "--concurrency-per-host", str(PER_HOST)),
    *("--host-down-after", str(DOWN_AFTER_S), "--connect-timeout", str(_CONNECT_S)),
)
_REFUSING: Final = ("--api-rate", f"{BURST}/{PAUSE_S:g}s", "--api-burst", str(BURST), "--api-per-host")
_MOST_RATIO: Final = 1.10
_LEAST_HEALTHY: Final = 0.95
_LONGEST_S: Final = 180.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Kind:
    """Hosts of one kind.

    Attributes:
        rows: The rows of each host.
        shortest_s: The least time that a host of this kind needs.
    """

    name: str
    hosts: int
    rows: int
    shortest_s: float


HEALTHY: Final = Kind(name="healthy", hosts=35, rows=2_000, shortest_s=2_000 / PER_HOST * DELAY_S)
SLOW: Final = Kind(name="slow", hosts=5, rows=90, shortest_s=90 / PER_HOST * SLOW_S)
REFUSING: Final = Kind(name="refusing", hosts=5, rows=50, shortest_s=(50 / BURST - 1) * PAUSE_S)
DEAD: Final = Kind(name="dead", hosts=5, rows=200, shortest_s=DOWN_AFTER_S)
KINDS: Final = (HEALTHY, SLOW, REFUSING, DEAD)
_NOTE: Final = f"""\
{PER_HOST} requests at once for each host, {_IN_FLIGHT} in all, rows in a random order. Healthy hosts respond after
{DELAY_S * 1000:.0f} ms, slow ones after {SLOW_S:g} s; refusing ones accept {BURST} requests in {PAUSE_S:g} s and
respond to more with 429 and `Retry-After: {PAUSE_S:g}`. Of the dead, some refuse connections, and some never respond;
their rows fail after {DOWN_AFTER_S:g} s. The shortest time is that of the kind that needs the longest, each host by
itself. Healthy hosts are compared with a run of their rows alone, from their first request to their last."""


def measure(arguments: argparse.Namespace) -> Finding:
    """Measures the healthy hosts alone, and then all of them."""
    client = fetching.client_of(arguments, "troubled")
    alone = _run(client, (HEALTHY,))
    return finding(alone, _run(client, KINDS))


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """A run: the figures of the client, and the logs of the servers."""

    fetched: Fetched
    healthy: Sequence[Entry] = ()
    slow: Sequence[Entry] = ()
    refusing: Sequence[Entry] = ()


def _run(client: Client, kinds: Sequence[Kind]) -> Ran:
    everywhere = ("--host", "0.0.0.0")  # noqa: S104 - a route to it is the bench's own
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headgate-bench-")))
        logs = directory / "healthy", directory / "refusing"
        usual = client.server("--delay", str(DELAY_S), *everywhere, "--log", str(logs[0]))
        healthy, refusing = (
            stack.enter_context(server)
            for server in (usual, client.server(*_REFUSING, *everywhere, "--log", str(logs[1])))
        )
        silent = stack.enter_context(_silent_port())
        ports = {HEALTHY: healthy.port, SLOW: healthy.port, REFUSING: refusing.port}
        urls = []
        addresses = iter(many_hosts.addresses(sum(kind.hosts for kind in KINDS)))
        for kind in kinds:
            path = f"/delay/{SLOW_S:g}" if kind is SLOW else "/row"
            for host in range(kind.hosts):
                port = ports.get(kind) or (silent if host % 2 else 1)
                address = next(addresses)
                urls += [f"http://{address}:{port}{path}?{row}\n" for row in range(kind.rows)]
        random.Random(0).shuffle(urls)  # noqa: S311 - the same list on every machine
        lines = directory / "urls.txt"
        lines.write_text("".join(urls))
        fetched = fetching.fetch(client, lines, _CLIENT, longest_s=_LONGEST_S, fails=True)
        # This makes them write the rest of their logs.
        for server in (healthy, refusing):
            server.stats()
        usual_seen, refusing_seen = map(server_log.read, logs)
        return Ran(
            fetched=fetched,
            healthy=[entry for entry in usual_seen if entry.target.startswith("/row")],
            slow=[entry for entry in usual_seen if entry.target.startswith("/delay")],
            refusing=refusing_seen,
        )


@contextmanager
def _silent_port() -> Iterator[int]:
    """Yields a port at which no connection is accepted, because its backlog is full."""
    everywhere = "0.0.0.0"  # noqa: S104 - as above
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server((everywhere, 0), backlog=0))
        port: int = listener.getsockname()[1]
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.settimeout(0)
            waiting.connect_ex(("127.0.0.1", port))
        yield port


def finding(alone: Ran, together: Ran) -> Finding:
    """Returns the time, the figures of healthy hosts, and how many requests came before the time of `Retry-After`."""
    fetched = together.fetched
    shortest_s = max(kind.shortest_s for kind in KINDS)
    dead = DEAD.hosts * DEAD.rows
    rows = sum(kind.hosts * kind.rows for kind in KINDS)
    wrong = [ran.fetched.wrong for ran in (alone, together) if ran.fetched.wrong]
    if (fetched.succeeded, fetched.failed) != (rows - dead, dead):
        wrong.append(f"{fetched.succeeded:,} succeeded and {fetched.failed:,} failed, not {rows - dead:,} and {dead:,}")
    by_host: dict[str, list[Entry]] = {}
    for entry in together.refusing:
        by_host.setdefault(entry.host, []).append(entry)
    early = sum(server_log.too_early(entries, PAUSE_S, on_its_way_s=_ON_ITS_WAY_S) for entries in by_host.values())
    refused = sum(entry.status == "429" for entry in together.refusing)
    unhindered = _took_s(alone.healthy) / _took_s(together.healthy) if alone.healthy and together.healthy else None
    targets = [
        tables.at_most("time / shortest", fetched.elapsed_s / shortest_s, _MOST_RATIO, "times", form=".3f"),
        tables.at_least("healthy hosts' requests/s, / alone", unhindered, _LEAST_HEALTHY),
        tables.at_most("requests before the time that was said", early, 0, "requests", form=".0f"),
    ]
    lines = [
        ["seconds", f"{fetched.elapsed_s:.1f}"],
        ["shortest", f"{shortest_s:.1f}"],
        ["healthy hosts, first to last", f"{_took_s(together.healthy):.1f}"],
        ["the same alone", f"{_took_s(alone.healthy):.1f}"],
        ["slow hosts, first to last", f"{_took_s(together.slow):.1f}"],
        ["refusing hosts, first to last", f"{_took_s(together.refusing):.1f}"],
        ["succeeded 429", f"{refused:,} of {len(together.refusing):,}"],
        ["errors", ", ".join(f"{count:,} {kind}" for kind, count in fetched.errors.items())],
    ]
    raw: list[dict[str, Any]] = [
        {"elapsed_s": fetched.elapsed_s, "shortest_s": shortest_s, "early": early, "refused": refused}
    ]
    text = f"{_NOTE}\n\n{tables.table(['', ''], lines)}\n\n{fetched.bottleneck}"
    return Finding(title="Hosts in trouble", targets=targets, text=text, raw=raw, wrong=wrong)


def _took_s(entries: Sequence[Entry]) -> float:
    return entries[-1].time_s - entries[0].time_s if entries else 0.0
