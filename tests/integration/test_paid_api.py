"""A job that calls a paid API pays for little twice: through expiring tokens, faults, kills, trials and budgets.

The same job with 20,000 rows is `make bench-paid`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.paid import MOST_EXTRA, SMALL, credentials, new_token, price_of, prices, prove, write_products
from support.results import rows
from support.run import headgate, serving, stats

ROWS: Final = 40
LATE_S: Final = 0.5
"""How late a commit may come on a busy machine."""
STOPPED: Final = 4
PER_S: Final = 20


@pytest.fixture
def api() -> Iterator[str]:
    with serving("--api-bearer-ttl", "1h") as server:
        yield server


def products(directory: Path) -> Path:
    """Writes a table whose rows all have an id."""
    path = directory / "products.ndjson"
    assert None not in write_products(path, ROWS)
    return path


def requests(server: str) -> int:
    sent: int = stats(server)["requests"]
    return sent


def test_a_job_that_outlives_its_tokens_and_a_kill_is_right_and_costs_hardly_more_than_it_must(tmp_path: Path) -> None:
    bill = prove(SMALL, tmp_path)
    assert [] == bill.wrong
    assert SMALL.rows == bill.right
    lost = len(SMALL.kills) * (SMALL.commit_s + LATE_S) * SMALL.per_s
    assert bill.minimum <= bill.requests <= bill.minimum * (1 + MOST_EXTRA) + lost
    runs = len(SMALL.kills) + 2
    # Each token is used until it expires.
    assert runs <= bill.renewals <= runs + bill.seconds / SMALL.token_s


def test_a_wrong_token_stops_the_job_which_continues_with_another_one(api: str, tmp_path: Path) -> None:
    table, out, token = products(tmp_path), tmp_path / "out", tmp_path / "token"
    command = prices(api, table, out, "--bearer", f"@{token}", "-c", "1")
    token.write_text("wrong")
    (error,) = headgate(*command, check=STOPPED).errors()
    for part in ("401", api, "row 0"):
        assert part in error
    # Each was sent once, or once more when the file had been read again.
    assert requests(api) < ROWS
    token.write_text(new_token(api))
    headgate(*command)
    headgate("retry", out, "--only", "401", "--bearer", f"@{token}", "-q", check=0)
    assert [price_of(f"p{row}") for row in range(ROWS)] == [row["price"] for row in rows(out)]


def test_a_command_without_a_token_stops_the_job_before_any_request(api: str, tmp_path: Path) -> None:
    flags = ("--token-command", "false", "--token-timeout", "1s")
    (error,) = headgate(*prices(api, products(tmp_path), tmp_path / "out", *flags), check=STOPPED).errors()
    assert "--token-command" in error
    assert 0 == requests(api)


def test_a_trial_is_paid_for_once(api: str, tmp_path: Path) -> None:
    command = prices(api, products(tmp_path), tmp_path / "out", *credentials(api))
    for trial, expected in ((("--max-rows", "5"), 5), (("--max-rows", "5"), 5), (("--max-rows", "9"), 9), ((), ROWS)):
        headgate(*command, *trial, check=0)
        assert expected == requests(api)
    assert [*range(ROWS)] == [row["row"] for row in rows(tmp_path / "out")]


def test_a_budget_holds_over_all_runs_of_a_job(api: str, tmp_path: Path) -> None:
    command = prices(api, products(tmp_path), tmp_path / "out", *credentials(api))
    for _ in range(2):
        (error,) = headgate(*command, "--max-requests", "15", check=STOPPED).errors()
        assert "--max-requests" in error
        assert 15 == requests(api)
    headgate(*command, "--max-requests", "1000", check=0)
    assert ROWS == requests(api)


def test_a_retry_keeps_the_rate_of_its_job(tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "log"
    with serving("--status", "503", "--log", str(log)) as server:
        headgate("fetch", f"{server}/[1-{ROWS}]", "-o", out, "--retries", "0", "--rate", f"{PER_S}/s", "-q", check=3)
        headgate("retry", out, "-q", check=3)
        assert 2 * ROWS == requests(server)
    times = [int(line.split("\t")[0]) for line in log.read_text().splitlines()][ROWS:]
    # All but the first wait for the rate; a tenth is for the burst.
    assert (max(times) - min(times)) / 1e6 >= 0.9 * (ROWS - 1) / PER_S


def test_a_wrong_token_does_not_hide_what_was_wrong_before(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving("--api-bearer-ttl", "1h", "--api-html-first", "100%") as server:
        headgate(*prices(server, products(tmp_path), out, *credentials(server), "--max-rows", "1"), check=3)
        token = tmp_path / "token"
        token.write_text("wrong")
        headgate("retry", out, "--bearer", f"@{token}", "-q")
    (row,) = rows(out)
    assert 401 == row["status"]
    assert "unexpected_response" in row["error_detail"]
