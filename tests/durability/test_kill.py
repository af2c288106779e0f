"""`kill -9` at any instant: run again until done, every row is there once, and little is asked twice."""

import random
from pathlib import Path

import pytest

from support.campaign import Job, kill_until_done
from support.killing import watching
from support.mixture import mixture, write_urls

ROWS = 20_000
KILLS = 6
CONCURRENCY = 32


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("form", "source"), [("parquet", "urls.txt"), ("ndjson", "urls.parquet")])
def test_killed_at_any_instant_a_job_loses_nothing_and_doubles_nothing(
    form: str, source: str, server: str, tmp_path: Path
) -> None:
    expected = mixture(server, ROWS)
    out = tmp_path / "out"
    job = Job(
        arguments=[
            "fetch",
            write_urls(tmp_path / source, expected),
            *("-o", out, "--format", form, "-c", str(CONCURRENCY), "--commit-every-s", "0.2", "-q"),
        ],
        directory=out,
        expected=expected,
        concurrency=CONCURRENCY,
        seconds=4,
    )
    with watching(server) as watched:
        story = kill_until_done(job, watched, random.Random(form), kills=KILLS)  # noqa: S311 - no secret
    assert [] == story.wrong
    assert sum(kill.extra for kill in story.kills) == story.requests - ROWS
