"""Kills jobs of many rows at random times, each repeatedly until it is done, and checks every row."""

import argparse
import dataclasses
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from harness import tables
from harness.findings import Finding
from harness.tables import Target
from support.campaign import Job, Kill, Story, kill_until_done
from support.killing import watching
from support.mixture import mixture, write_urls
from support.run import serving

_ROWS: Final = 200_000
_CONCURRENCY: Final = 64
_COMMIT_EVERY_S: Final = 0.5
_ROWS_PER_S: Final = 8_000
"""About the rate that the slow rows of the mixture allow; only the times of kills depend on it, not the figures."""
_KILLS_OF_A_JOB: Final = 25
_FORMATS: Final = ("parquet", "ndjson")


def measure(arguments: argparse.Namespace) -> Finding:
    """Runs jobs one after another, until the required number of kills was made."""
    chance = random.Random(arguments.seed)  # noqa: S311 - no secret
    rows = arguments.rows or _ROWS
    stories: list[Story] = []
    begun = time.perf_counter()
    while (left := arguments.kills - sum(len(story.kills) for story in stories)) > 0:
        form = _FORMATS[len(stories) % len(_FORMATS)]
        story = _job(rows, form, chance, kills=min(left, _KILLS_OF_A_JOB))
        stories.append(story)
        print(
            f"kill: job {len(stories)} ({form}): killed {len(story.kills)} times, {story.requests - rows:,} "
            f"requests more than rows, {story.seconds:.0f} s; {'; '.join(story.wrong) or 'all right'}",
            file=sys.stderr,
        )
    return _finding(stories, rows, time.perf_counter() - begun)


def _job(rows: int, form: str, chance: random.Random, *, kills: int) -> Story:
    with serving() as server, tempfile.TemporaryDirectory(prefix="headgate-bench-") as scratch:
        expected = mixture(server, rows, seed=chance.randrange(2**32))
        out = Path(scratch, "results")
        flags = ["--format", form, "-c", str(_CONCURRENCY), "--commit-interval", str(_COMMIT_EVERY_S)]
        job = Job(
            arguments=["fetch", write_urls(Path(scratch, "urls.txt"), expected), "-o", out, *flags],
            directory=out,
            expected=expected,
            concurrency=_CONCURRENCY,
            commit_interval=_COMMIT_EVERY_S,
            seconds=rows / _ROWS_PER_S,
        )
        with watching(server) as watched:
            return kill_until_done(job, watched, chance, kills=kills)


def _finding(stories: Sequence[Story], rows: int, seconds: float) -> Finding:
    kills = [kill for story in stories for kill in story.kills]
    wrong = [mistake for story in stories for mistake in story.wrong]
    events = sorted({kill.moment.event for kill in kills})
    head = ["killed at a random time after", "kills", "rows asked again, median", "most", "most of what is allowed"]
    text = (
        f"{len(kills)} kills of {len(stories)} jobs of {rows:,} rows, {_CONCURRENCY} in flight, a commit every "
        f"{_COMMIT_EVERY_S:g} s, {seconds:.0f} s in all. After each: every part readable, no row twice, nothing asked "
        "again that was committed; at the end of each job every row once, with what the server sent. `start` and `run` "
        "are the start of the process, `commit` is its next commit, `done` the one after which small parts are put "
        "together."
    )
    return Finding(
        title="Killed at random instants",
        targets=[Target("promises broken: none", len(wrong), str(len(wrong)), not wrong)],
        text=f"{text}\n\n{tables.table(head, [_row(event, kills) for event in events])}",
        raw=[_raw(number, kill) for number, story in enumerate(stories, 1) for kill in story.kills],
        wrong=wrong,
    )


def _row(event: str, kills: Sequence[Kill]) -> list[str]:
    own = [kill for kill in kills if kill.moment.event == event]
    return [
        event,
        str(len(own)),
        tables.number(tables.median(kill.extra for kill in own), ",.0f"),
        f"{max(kill.extra for kill in own):,}",
        f"{max(kill.extra / kill.allowed for kill in own):.0%}",
    ]


def _raw(job: int, kill: Kill) -> dict[str, Any]:
    moment = dataclasses.asdict(kill.moment)
    return {"job": job} | {name: value for name, value in dataclasses.asdict(kill).items() if name != "moment"} | moment
