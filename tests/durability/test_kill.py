"""`kill -9` at any moment: run until done, every row is there once, and few requests are sent twice."""

import random
from pathlib import Path

import pytest

from support.campaign import Job, kill_until_done
from support.killing import watching
from support.mixture import mixture, write_urls
from support.run import headgate

ROWS = 20_000
KILLS = 6
CONCURRENCY = 32
COMMIT_EVERY_S = 0.2


def job_of(server: str, directory: Path, source: str, *flags: str) -> Job:
    expected = mixture(server, ROWS)
    out = directory / "out"
    bounds = ["-c", str(CONCURRENCY), "--commit-interval", str(COMMIT_EVERY_S), "--retries", "0"]
    return Job(
        arguments=["fetch", write_urls(directory / source, expected), "-o", out, *bounds, *flags],
        directory=out,
        expected=expected,
        concurrency=CONCURRENCY,
        commit_interval=COMMIT_EVERY_S,
        seconds=4,
    )


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("form", "source"), [("parquet", "urls.txt"), ("ndjson", "urls.parquet")])
def test_killed_at_any_instant_a_job_loses_nothing_and_doubles_nothing(
    form: str, source: str, server: str, tmp_path: Path
) -> None:
    job = job_of(server, tmp_path, source, "--format", form)
    with watching(server) as watched:
        story = kill_until_done(job, watched, random.Random(form), kills=KILLS)  # noqa: S311 - no secret
    assert [] == story.wrong, "\n".join(story.wrong)
    assert sum(kill.extra for kill in story.kills) == story.requests - ROWS


@pytest.mark.timeout(300)
def test_the_accounts_find_a_job_that_resends_committed_rows(server: str, tmp_path: Path) -> None:
    job = job_of(server, tmp_path, "urls.txt", "--if-exists", "overwrite")
    with watching(server) as watched:
        story = kill_until_done(job, watched, random.Random(2), kills=2)  # noqa: S311 - no secret
    assert any("requests for the" in mistake for mistake in story.wrong), story


def test_a_job_that_was_killed_before_its_options_were_stored_starts(server: str, tmp_path: Path) -> None:
    own = tmp_path / "out" / "_headgate"
    (own / "log").mkdir(parents=True)
    for name in ("lock", "heartbeat.json", "heartbeat.json.new", "series.ndjson", "series.ndjson.new"):
        (own / name).touch()
    headgate("fetch", f"{server}/[1-5]", "-o", tmp_path / "out", check=0)
    (own / "job.json").unlink()
    assert "job.json is missing" in headgate("fetch", f"{server}/[1-5]", "-o", tmp_path / "out", check=2).stderr
