"""Runs a job, kills it and runs it again until it is done, and counts the requests that each kill cost.

A kill may cost the rows that the server has responded to since the last commit, and those in flight, by the server's
own count. The last commit may not be older than `commit_interval`. A row that ends just before a commit may miss it:
workers pass on results in batches, and a commit takes time to write. `_LATE_S` is the longest that this may take. A
disk that other processes keep busy may delay a commit by `_STALLED_S`.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from support import commits, ledger
from support.killing import Moment, Run, Watched, draw_moment, run_and_kill
from support.ledger import Ending

EXIT_FAILED_ROWS: Final = 3
_SHARE: Final = 0.2
"""The share of a whole job after which a kill comes at the latest, so that many kills find rows left to do."""
_LATE_S: Final = 0.5
_STALLED_S: Final = 2.0
_RESUMING: Final = re.compile(r"^resuming: ([\d,]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job that is killed.

    Attributes:
        arguments: The arguments of the command.
        directory: Where its results go.
        expected: What each row must become.
        concurrency: As in `arguments`.
        commit_interval: How long results may wait for a commit; as in `arguments`.
        seconds: About how long it takes if it is not killed.
    """

    arguments: Sequence[str | Path]
    directory: Path
    expected: Sequence[Ending]
    concurrency: int
    commit_interval: float
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    """A kill, and the requests that it cost.

    Attributes:
        moment: When it was due.
        after_s: When it came.
        committed: Rows that the killed run had committed.
        done: Rows that all runs had committed.
        requests: Requests of the killed run, as the server counts.
        extra: Those of them that are resent because they were not committed.
        allowed: The most that `extra` may be.
    """

    moment: Moment
    after_s: float
    committed: int
    done: int
    requests: int
    extra: int
    allowed: int


@dataclass(kw_only=True, slots=True)
class Story:
    """All kills of a job.

    Attributes:
        kills: The kills in their order; the job was done after the last of them.
        requests: Requests of all runs, as the server counts.
        seconds: The duration of all runs.
        wrong: A message for every broken promise.
    """

    kills: list[Kill] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def kill_until_done(job: Job, server: Watched, chance: random.Random, *, kills: int) -> Story:
    """Kills the job at most `kills` times, each time at another moment, and lets it finish at last."""
    story = Story()
    rows = len(job.expected)
    while True:
        left = 1 - commits.done(job.directory) / rows
        more = kills - len(story.kills)
        at_end = more == 1 or (0 < left < _SHARE and chance.choice([True, False]))
        moment = draw_moment(chance, left_s=job.seconds * min(_SHARE, left), at_end=at_end) if more else None
        before, done_before = server.settled_requests(), commits.done(job.directory)
        run = run_and_kill(job.arguments, job.directory, server, moment, rows=rows)
        requests, done = server.settled_requests() - before, commits.done(job.directory)
        story.requests += requests
        story.seconds += run.seconds
        where = f"after {len(story.kills)} kills"
        story.wrong += [f"{where}: {mistake}" for mistake in _mistakes(job, run, requests, done_before)]
        if moment is None or run.code is not None:
            story.wrong += [f"{where}: {mistake}" for mistake in _mistakes_of_end(job, run, requests, done_before)]
            return story
        kill = Kill(
            moment=moment,
            after_s=run.seconds,
            committed=done - done_before,
            done=done,
            requests=requests,
            extra=requests - (done - done_before),
            allowed=before + requests - _responses_before_last_commit(job, run) + job.concurrency,
        )
        story.kills.append(kill)
        if kill.extra > kill.allowed:
            story.wrong.append(f"{where}: {kill.extra} rows are resent, {kill.allowed} allowed: {kill}")


def _mistakes(job: Job, run: Run, requests: int, done_before: int) -> list[str]:
    """Returns the mistakes of any run, killed or not."""
    wrong = [f"{word}: {run.stderr}" for word in ("Traceback", "panicked") if word in run.stderr]
    if requests > len(job.expected) - done_before:
        wrong.append(f"{requests} requests for the {len(job.expected) - done_before} rows that were left")
    resuming = _RESUMING.search(run.stderr)
    if resuming and int(resuming[1].replace(",", "")) != done_before:
        wrong.append(f"it says `{resuming[0]}`, but {done_before} rows were done")
    try:
        if twice := ledger.twice(job.directory):
            wrong.append(f"rows stand there twice: {twice[:10]}")
    except Exception as error:  # noqa: BLE001 - a reader must raise nothing
        wrong.append(f"the results can't be read: {error}")
    return wrong


def _mistakes_of_end(job: Job, run: Run, requests: int, done_before: int) -> list[str]:
    """Returns the mistakes of a run that was not killed."""
    failed = any(ending.series == "failed" for ending in job.expected)
    expected_code = EXIT_FAILED_ROWS if failed else 0
    wrong = [] if run.code == expected_code else [f"exit code {run.code}, not {expected_code}: {run.stderr}"]
    if requests != len(job.expected) - done_before:
        wrong.append(f"{requests} requests for the {len(job.expected) - done_before} rows that were left")
    return wrong + ledger.mistakes(job.directory, job.expected)


def _responses_before_last_commit(job: Job, run: Run) -> int:
    """Returns how many requests the server had responded to that must all be committed."""
    commit = commits.newest(job.directory)
    due_s = run.ended_s - job.commit_interval - _STALLED_S
    by_s = due_s if commit is None else max(due_s, commit.written_s - _LATE_S)
    return max((sample.succeeded for sample in run.samples if sample.at_s <= by_s), default=run.samples[0].succeeded)
