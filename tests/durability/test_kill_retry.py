"""`kill -9` of a retry at any moment: every row is there once, and in the end all that can succeed have done so."""

import random
from pathlib import Path

import pytest

from support import ledger
from support.killing import Moment, run_and_kill, watching
from support.ledger import Ending
from support.mixture import mixture, write_urls
from support.results import rows
from support.run import headgate, serving

ROWS = 6_000
KILLS = 6
GREETING = b"Hello, World!"


def endings(server: str, *, healed: bool) -> list[Ending]:
    """Two of three rows have the default response of the server, which is 503 until it has recovered."""
    status = 200 if healed else 503
    others = mixture(server, ROWS, status=status)
    return [
        others[row] if row % 3 == 0 else Ending(f"{server}/heals/{row}", status, None, GREETING) for row in range(ROWS)
    ]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("form", ["parquet", "ndjson"])
def test_killed_at_any_instant_a_retry_loses_nothing_and_doubles_nothing(form: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving("--status", "503") as server:
        ill = endings(server, healed=False)
        source = write_urls(tmp_path / "urls.txt", ill)
        # The parts are so small that there are many, each of which a retry replaces by a commit.
        headgate("fetch", source, "-o", out, "--format", form, "--part-size", "16KiB", "--retries", "0", check=3)
        assert [] == ledger.mistakes(out, ill)
    failed = sum(ending.series == "failed" for ending in ill)
    assert len(list(out.glob("failed-*"))) > KILLS

    chance = random.Random(form)  # noqa: S311 - no secret
    command: list[str | Path] = ["retry", out, "-c", "16", "--retries", "0"]
    with serving("--port", server.rpartition(":")[2], "--delay", "0..0.02") as same, watching(same) as watched:
        assert server == same
        well = endings(server, healed=True)
        before = watched.settled_requests()
        for _ in range(KILLS):
            event = chance.choice(["run", "run", "commit"])
            moment = Moment("commit" if event == "commit" else "run", chance.uniform(0, 1.0))
            run_and_kill(command, out, watched, moment, rows=ROWS)
            assert [] == ledger.twice(out)
        last = run_and_kill(command, out, watched, None, rows=ROWS)
        requests = watched.settled_requests() - before
    assert 3 == last.code, last.stderr
    assert [] == ledger.mistakes(out, well)
    assert failed < requests
    if form == "parquet":
        attempts = {row["attempts"] for row in rows(out) if row["url"].startswith(f"{server}/heals/")}
        assert {2} == attempts, "a row counts one attempt of the fetch and one of the retry that committed it"
