"""Runs a job, kills it, runs it again, until it is done; and keeps accounts of what that cost.

What a kill may cost, by the server's own count: the rows that it had answered since the last commit, and those that
were in flight; and the last commit may not be longer ago than was asked for. A row answered just before a commit may
not be in it, because workers hand on their results in batches and because a commit takes time to write: `_LATE_S` is
what that may take, and no more is overlooked. A disk that others keep busy may hold a commit up for `_STALLED_S`.
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
"""Of a whole job: no kill waits longer, so that many of them find something left to be done."""
_LATE_S: Final = 0.5
_STALLED_S: Final = 2.0
_RESUMING: Final = re.compile(r"^resuming: ([\d,]+)", re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """What is to be done.

    Attributes:
        arguments: Of the command.
        directory: Where its results go.
        expected: What each row must become.
        concurrency: As asked in `arguments`; the next, too.
        commit_every_s: How long results may wait for a commit.
        seconds: How long it takes if nobody kills it, more or less.
    """

    arguments: Sequence[str | Path]
    directory: Path
    expected: Sequence[Ending]
    concurrency: int
    commit_every_s: float
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Kill:
    """What one kill met, and cost.

    Attributes:
        moment: When it was to come.
        after_s: When it came.
        committed: Rows that the killed run had committed.
        done: Rows that all runs had committed.
        requests: What the killed run had asked, as the server counts.
        extra: Of these, what is asked again because it was not committed.
        allowed: What the promise allows `extra` to be.
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
    """How a job went.

    Attributes:
        kills: In their order; the job was done after the last of them.
        requests: What the server counts over all runs.
        seconds: Of all runs.
        wrong: Every promise that was broken; empty if none was.
    """

    kills: list[Kill] = field(default_factory=list)
    requests: int = 0
    seconds: float = 0.0
    wrong: list[str] = field(default_factory=list)


def kill_until_done(job: Job, server: Watched, chance: random.Random, *, kills: int) -> Story:
    """Kills the job so often at the most, each time at another moment, and lets it be done at last."""
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
            allowed=before + requests - _answered_before_last_commit(job, run) + job.concurrency,
        )
        story.kills.append(kill)
        if kill.extra > kill.allowed:
            story.wrong.append(f"{where}: {kill.extra} rows are asked again, {kill.allowed} allowed: {kill}")


def _mistakes(job: Job, run: Run, requests: int, done_before: int) -> list[str]:
    """Of any run, killed or not."""
    wrong = [f"{word}: {run.stderr}" for word in ("Traceback", "panicked") if word in run.stderr]
    if requests > len(job.expected) - done_before:
        wrong.append(f"{requests} requests for the {len(job.expected) - done_before} rows that were left")
    said = _RESUMING.search(run.stderr)
    if said and int(said[1].replace(",", "")) != done_before:
        wrong.append(f"it says `{said[0]}`, but {done_before} rows were done")
    try:
        if twice := ledger.twice(job.directory):
            wrong.append(f"rows stand there twice: {twice[:10]}")
    except Exception as error:  # noqa: BLE001 - whatever a reader may raise, it must not
        wrong.append(f"the results can't be read: {error}")
    return wrong


def _mistakes_of_end(job: Job, run: Run, requests: int, done_before: int) -> list[str]:
    """Of the run that came to its end by itself."""
    failed = any(ending.series == "failed" for ending in job.expected)
    expected_code = EXIT_FAILED_ROWS if failed else 0
    wrong = [] if run.code == expected_code else [f"exit code {run.code}, not {expected_code}: {run.stderr}"]
    if requests != len(job.expected) - done_before:
        wrong.append(f"{requests} requests for the {len(job.expected) - done_before} rows that were left")
    return wrong + ledger.mistakes(job.directory, job.expected)


def _answered_before_last_commit(job: Job, run: Run) -> int:
    """What the server had answered of which all must be committed."""
    commit = commits.newest(job.directory)
    due_s = run.ended_s - job.commit_every_s - _STALLED_S
    by_s = due_s if commit is None else max(due_s, commit.written_s - _LATE_S)
    return max((sample.answered for sample in run.samples if sample.at_s <= by_s), default=run.samples[0].answered)
