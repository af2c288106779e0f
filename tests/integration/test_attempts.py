"""The column `attempts` counts every request of a row, over stops, resumes and retries."""

import signal
import subprocess
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from support.origin import Origin, changing
from support.results import rows
from support.run import LONGEST_S, headgate, started, wait_for

ROWS: Final = 30
FAILING: Final = ("/2", "/11", "/29")
HELD: Final = ("/5", "/17")
RETRYING: Final = (
    "--retries",
    "60000",
    "--retry-delay",
    "0.01",
    "--retry-max-delay",
    "0.02",
    "--shutdown-timeout",
    "0",
)


def sent(origin: Origin) -> Counter[str]:
    """Returns how many requests each path has had."""
    return Counter(path for _, path, _, _ in origin.requests)


def stop_after(process: subprocess.Popen[str], origin: Origin, least: dict[str, int], number: signal.Signals) -> None:
    """Stops the process once paths have had that many requests."""
    wait_for(lambda: all(sent(origin)[path] >= count for path, count in least.items()))
    process.send_signal(number)
    process.communicate(timeout=LONGEST_S)


def attempts(out: Path, origin: Origin) -> Counter[str]:
    """Returns the attempts of each row, under the path of its request."""
    return Counter({row["url"].removeprefix(origin.url): row["attempts"] for row in rows(out)})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_attempts_before_a_stop_count(number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses = dict.fromkeys(FAILING, 503)
        origin.held = set(HELD)
        fetch = ("fetch", f"{origin.url}/[1-{ROWS}]", "-o", out, "-c", "8", *RETRYING)
        for run in (1, 2):
            with started(*fetch) as process:
                more = {path: sent(origin)[path] + 3 for path in FAILING} | dict.fromkeys(HELD, run)
                stop_after(process, origin, more, number)
        assert 0 < len(rows(out)) < ROWS
        origin.statuses.clear()
        origin.held.clear()
        origin.released.set()
        headgate(*fetch, check=0)
        counted = attempts(out, origin)
        assert sent(origin) == counted
        assert ROWS == len(counted)
        assert {3} == {counted[path] for path in HELD}, "abandoned twice"
        assert min(counted[path] for path in FAILING) > 6


def test_attempts_count_when_a_job_stops_itself(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses = {f"/{row}": 503 for row in range(1, ROWS + 1, 2)}
        fetch = ("fetch", f"{origin.url}/[1-{ROWS}]", "-o", out, "-c", "4", "--retries", "2", "--retry-delay", "0.01")
        headgate(*fetch, "--max-failures", "3", check=4)
        origin.statuses.clear()
        headgate(*fetch, "--max-failures", "never", check=3)
        headgate("retry", out, check=0)
        assert sent(origin) == attempts(out, origin)
        assert ROWS == len(rows(out))


def test_attempts_of_a_retry_that_is_stopped_count(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses = dict.fromkeys([*FAILING, *HELD], 503)
        headgate("fetch", f"{origin.url}/[1-{ROWS}]", "-o", out, "--retries", "1", "--retry-delay", "0", check=3)
        del origin.statuses[HELD[0]], origin.statuses[HELD[1]]
        origin.held = {HELD[0]}
        for run in (1, 2):
            with started("retry", out, "-c", "4", *RETRYING) as process:
                more = {path: sent(origin)[path] + 3 for path in FAILING} | {HELD[0]: 2 + run}
                stop_after(process, origin, more, signal.SIGTERM)
        origin.held.clear()
        origin.released.set()
        origin.statuses.clear()
        headgate("retry", out, check=0)
        assert sent(origin) == attempts(out, origin)
        assert 5 == attempts(out, origin)[HELD[0]], "two of the fetch, two that were abandoned, one that succeeded"
