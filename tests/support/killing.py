"""Runs the command and kills it (SIGKILL) at an instant that is drawn from a seed."""

import contextlib
import http.client
import json
import os
import random
import select
import signal
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from support import commits
from support.run import HEADGATE, LONGEST_S

_LOOK_S: Final = 0.002
"""The pause between two looks at the commits: files of another process, for which there is no event."""
_SAMPLE_S: Final = 0.02
_SAMPLES: Final = 50_000
"""Enough for a thousand seconds."""

_LONGEST_RUN_S: Final = 300

Event = Literal["start", "run", "commit", "done"]


@dataclass(frozen=True, slots=True)
class Moment:
    """When to kill: `then_s` after an event of the run.

    `start` and `run` are the start of the process, `commit` is its next commit. `done` is the commit after which every
    row is done and small parts are merged.
    """

    event: Event
    then_s: float


def draw_moment(chance: random.Random, *, left_s: float, at_end: bool) -> Moment:
    """Draws any moment of the remaining time, or one close to an event that is too short to be hit by chance.

    The end of a job comes once, and is drawn only if `at_end` is set.
    """
    if at_end:
        return Moment("done", chance.uniform(0, 0.1))
    longest_s: dict[Event, float] = {"run": left_s, "start": 0.4, "commit": 0.02}
    event = chance.choices(list(longest_s), weights=[6, 1, 3])[0] if left_s else "start"
    return Moment(event, chance.uniform(0, longest_s[event]))


@dataclass(frozen=True, slots=True)
class Sample:
    """How many requests the server had responded to at one time."""

    at_s: float
    succeeded: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run of the command.

    Attributes:
        code: Its exit code; `None` if it was killed.
        seconds: How long it ran.
        ended_s: When it ended, in seconds since the epoch.
        stderr: What it wrote to standard error.
        samples: What the server had responded to meanwhile, in the order of time.
    """

    code: int | None
    seconds: float
    ended_s: float
    stderr: str
    samples: list[Sample]


class Watched:
    """Reads the counters of a server over one connection that stays open, so that frequent reads cost little."""

    def __init__(self, server: str) -> None:
        address = urlsplit(server)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=LONGEST_S)

    def stats(self) -> dict[str, Any]:
        """Returns the counters of the server."""
        self._connection.request("GET", "/stats")
        seen: dict[str, Any] = json.loads(self._connection.getresponse().read())
        return seen

    def settled_requests(self) -> int:
        """Waits until the server has noticed that its clients are gone, and returns its number of requests."""
        end = time.monotonic() + LONGEST_S
        while (seen := self.stats())["connections_open"] > 1:
            assert time.monotonic() < end, f"{seen['connections_open'] - 1} connections stay open without a client"
        requests: int = seen["requests"]
        return requests

    def sample(self) -> Sample:
        """Returns a sample of now."""
        at_s, seen = time.time(), self.stats()
        return Sample(at_s, seen["requests"] - seen["requests_in_progress"])

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()


@contextmanager
def watching(server: str) -> Iterator[Watched]:
    """Yields the counters of a server until the end of the block."""
    with contextlib.closing(Watched(server)) as watched:
        yield watched


def run_and_kill(
    arguments: Sequence[str | Path], directory: Path, server: Watched, moment: Moment | None, *, rows: int
) -> Run:
    """Runs the command on the job in `directory`, which has `rows` rows, until it ends or the moment comes."""
    with tempfile.TemporaryFile() as errors:
        begun = time.monotonic()
        samples = deque([server.sample()], maxlen=_SAMPLES)
        event = None if moment is None else _Event(moment, directory, rows)
        process = subprocess.Popen(
            [HEADGATE, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            start_new_session=True,
        )
        ended = os.pidfd_open(process.pid)
        try:
            while not select.select([ended], [], [], _LOOK_S)[0] and not (event and event.is_due()):
                now = time.monotonic()
                assert now < begun + _LONGEST_RUN_S, f"it does not end within {_LONGEST_RUN_S} s"
                if time.time() >= samples[-1].at_s + _SAMPLE_S:
                    samples.append(server.sample())
            code, ended_s = process.poll(), time.time()
        finally:
            # The whole group is killed, also if the command has just ended: no process of it may be left.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            os.close(ended)
        errors.seek(0)
        return Run(
            code=code,
            seconds=time.monotonic() - begun,
            ended_s=ended_s,
            stderr=errors.read().decode(),
            samples=list(samples),
        )


class _Event:
    """Tells when the moment has come, for a run that starts when this is made."""

    def __init__(self, moment: Moment, directory: Path, rows: int) -> None:
        self._moment, self._directory, self._rows = moment, directory, rows
        self._before = commits.newest_name(directory)
        self._came_at = time.monotonic() if moment.event in ("start", "run") else None

    def is_due(self) -> bool:
        if self._came_at is None and self._has_come():
            self._came_at = time.monotonic()
        return self._came_at is not None and time.monotonic() >= self._came_at + self._moment.then_s

    def _has_come(self) -> bool:
        if self._moment.event == "done":
            return commits.done(self._directory) == self._rows
        return commits.newest_name(self._directory) > self._before
