"""Runs `headgate fetch` as a user does, and reads its summary."""

import argparse
import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import command, processes, servers
from harness.servers import LocalServer
from harness.trial import Cores

FAILED_ROWS: Final = 3
"""The exit code if some rows failed."""
_TAIL: Final = 400


@dataclass(frozen=True, slots=True)
class Client:
    """A headgate that fetches on one core from servers on another, such as its own `headgate serve`."""

    program: Path
    cores: Cores

    @contextmanager
    def server(self, *flags: str) -> Iterator[LocalServer]:
        """Runs `headgate serve` with these flags."""
        with servers.local_server(self.program, self.cores.server, *flags) as server:
            yield server


def client_of(arguments: argparse.Namespace, question: str) -> Client:
    """Returns the client of a command.

    Raises:
        ServerError: There is one core only.
    """
    return Client(arguments.headgate, command.two_cores(question))


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """A run of the command.

    Attributes:
        wall_s: The wall time with its start and its end.
        elapsed_s: The time without them, by its own clock.
        succeeded: Rows that succeeded.
        failed: Rows that failed.
        errors: Failed rows by error kind.
        bottleneck: The bottleneck.
        wrong: Why it does not count; empty if it does.
    """

    wall_s: float
    elapsed_s: float
    peak_rss_bytes: int
    succeeded: int = 0
    failed: int = 0
    errors: dict[str, int]
    bottleneck: str = ""
    wrong: str = ""


def fetch(
    client: Client, source: str | Path, flags: Sequence[str], *, longest_s: float, fails: bool = False
) -> Fetched:
    """Runs the command to its end, without results.

    Args:
        client: The headgate and its cores.
        source: The input.
        flags: Further flags.
        longest_s: The time after which it is killed, which is a mistake.
        fails: Whether rows may fail.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-bench-") as directory:
        summary = Path(directory, "summary.json")
        typed = [str(client.program), "fetch", str(source), "--format", "none", "-q", "--summary", str(summary), *flags]
        ended = processes.run(typed, core=client.cores.client, longest_s=longest_s)
        said: dict[str, Any] = json.loads(summary.read_text()) if summary.exists() else {}
    wrong = ""
    if ended.code not in ((0, FAILED_ROWS) if fails else (0,)):
        end = f"killed after {ended.wall_s:.0f} s" if ended.code < 0 else f"exit code {ended.code}"
        wrong = f"{end}: {ended.stderr[-_TAIL:].strip()}"
    return Fetched(
        wall_s=ended.wall_s,
        elapsed_s=said.get("elapsed_s", ended.wall_s),
        peak_rss_bytes=ended.peak_rss_bytes,
        succeeded=said.get("succeeded", 0),
        failed=said.get("failed", 0),
        errors=said.get("errors", {}),
        bottleneck=said.get("bottleneck", {}).get("text", ""),
        wrong=wrong,
    )
