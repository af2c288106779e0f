"""Budgets of requests and costs hold over all runs of a job, and a job stops in order when one is used up."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

import headgate as package
from support.origin import changing
from support.results import rows
from support.run import LONGEST_S, Done, headgate, serving, started, stats, wait_for, wait_for_requests


def sent(server: str) -> int:
    """Returns how many requests the server has received."""
    number: int = stats(server)["requests"]
    return number


def status(out: Path) -> dict[str, Any]:
    figures: dict[str, Any] = json.loads(headgate("status", out, "--as-json").stdout)
    return figures


def used_up(budget: str, flag: str = "--max-requests") -> str:
    what = "requests is" if flag == "--max-requests" else "for costs is"
    return f"the budget of {budget} {what} used up ({flag}); a larger one continues the job"


def test_a_job_stops_when_its_requests_are_used_up_and_a_larger_budget_continues_it(tmp_path: Path) -> None:
    out, summary = tmp_path / "out", tmp_path / "summary.json"
    with serving() as server:
        fetch = ("fetch", f"{server}/[1-5000]", "-o", out, "--summary", summary)
        done = headgate(*fetch, "--max-requests", "2000", check=4)
        assert [used_up("2,000")] == done.errors()
        assert "  requests    2,000 of 2,000 in all runs\n" in done.stderr
        figures = json.loads(summary.read_text())
        assert (2000, 2000, 2000, None) == tuple(figures[key] for key in ("rows", "requests", "max_requests", "cost"))
        assert figures["throttled_s"]["budget"] > 0, "the first request waits for its reservation"
        assert sent(server) == 2000

        plan = package.plan(f"{server}/[1-5000]", out, max_requests=4000)
        assert (3000, 2000, 4000) == (plan.requests_left, plan.requests_before, plan.max_requests)
        expected = "max_requests allows 2,000 more requests, and 3,000 are expected: the job will stop before its end"
        assert expected in plan.notes

        again = headgate(*fetch, "--max-requests", "2000", check=4)
        assert [used_up("2,000")] == again.errors()
        assert sent(server) == 2000
        with pytest.raises(package.JobStopped, match="used up \\(max_requests\\)"):
            package.fetch(f"{server}/[1-5000]", out, max_requests=2001, progress=False)
        headgate(*fetch, "--max-requests", "5000", check=0)
        assert sent(server) == 5000
    seen = status(out)
    assert (5000, 5000, 5000, True) == tuple(seen[key] for key in ("succeeded", "requests", "max_requests", "finished"))


def test_requests_of_runs_without_a_budget_count_too(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.statuses = {"/2": 503, "/4": 404}
        headgate("fetch", f"{origin.url}/[1-10]", "-o", out, "--retries", "1", "--retry-delay", "0", check=3)
        assert len(origin.requests) == 11 == status(out)["requests"]
        done = headgate("retry", out, "--retries", "5", "--retry-delay", "0", "--max-requests", "13", check=4)
        assert [used_up("13")] == done.errors()
        assert len(origin.requests) == 13
        assert (13, 10, 1) == tuple(status(out)[key] for key in ("requests", "done", "failed"))
        origin.statuses = {}
        headgate("retry", out, "--max-requests", "14", check=0)
        assert len(origin.requests) == 14


def test_retries_and_redirects_count_and_a_row_without_its_retry_is_left_undone(tmp_path: Path) -> None:
    with serving("--status", "503") as server:
        fetch = ("fetch", f"{server}/[1-4]", "-o", tmp_path / "retried", "--retry-delay", "0", "--max-requests")
        headgate(*fetch, "6", check=4)
        assert sent(server) == 6
        assert status(tmp_path / "retried")["failed"] < 4
    with serving() as server:
        followed = ("fetch", f"{server}/redirect/2?row=[1-3]", "-o", tmp_path / "redirected", "--max-requests")
        headgate(*followed, "8", check=4)
        assert sent(server) == 8
        before: int = status(tmp_path / "redirected")["done"]
        assert before < 3
        headgate(*followed, str(8 + 3 * (3 - before)), check=0)
        assert sent(server) == 8 + 3 * (3 - before)


def test_a_budget_that_suffices_exactly_is_not_the_end_of_the_job(tmp_path: Path) -> None:
    with serving() as server:
        headgate("fetch", f"{server}/[1-300]", "-o", tmp_path / "out", "--max-requests", "300", check=0)
        headgate("fetch", f"{server}/[1-300]", "-o", tmp_path / "out", "--max-requests", "300", check=0)
        assert sent(server) == 300


@pytest.mark.parametrize("events", [1, 2, 3])
def test_a_killed_job_never_exceeds_its_budget(tmp_path: Path, events: int) -> None:
    out, budget, reserved = tmp_path / "out", 6000, 0
    with serving() as server:
        fetch = ("fetch", f"{server}/[1-20000]", "-o", out, "-q", "--rate", "2000/s", "--max-requests", str(budget))
        for kill in range(events):
            before = sent(server)
            with started(*fetch) as job:
                wait_for_requests(server, before + 500 * (kill + 1))
                job.kill()
                job.wait(LONGEST_S)
            wait_for(lambda: bool(stats(server)["connections_open"] <= 1))
            seen = status(out)
            assert seen["requests"] >= sent(server), "what was reserved counts"
            reserved += seen["requests"] - sent(server) - reserved
        assert [used_up("6,000")] == headgate(*fetch, check=4).errors()
        assert budget - reserved <= sent(server) <= budget
        assert status(out)["requests"] == budget


def test_a_killed_retry_never_exceeds_the_budget_of_its_job(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving("--status", "503") as server:
        alone = ("--retries", "0", "--max-failures", "never", "-q")
        headgate("fetch", f"{server}/[1-2000]", "-o", out, *alone, check=3)
        retry = ("retry", out, *alone, "--rate", "800/s", "--max-requests", "4500")
        with started(*retry) as job:
            wait_for_requests(server, 2300)
            job.kill()
            job.wait(LONGEST_S)
        wait_for(lambda: bool(stats(server)["connections_open"] <= 1))
        seen = status(out)
        assert seen["requests"] >= sent(server)
        reserved = seen["requests"] - sent(server)
        while headgate(*retry).code != 4:
            assert sent(server) < 4500, "each retry sends all rows, until the budget is used up"
        assert 4500 - reserved <= sent(server) <= 4500
        assert (2000, 4500) == (status(out)["failed"], status(out)["requests"])


def test_costs_of_rows_are_never_exceeded_and_responses_correct_them(tmp_path: Path) -> None:
    costs = [5, 10, 20, 30, 40, 50]
    with changing(b'{"cost": 2}') as origin:
        table = tmp_path / "rows.csv"
        table.write_text("url,tokens\n" + "".join(f"{origin.url}/{cost},{cost}\n" for cost in costs))
        fetch = ("fetch", table, "-o", tmp_path / "out", "--cost-column", "tokens", "--max-cost")
        done = headgate(*fetch, "70", check=4)
        budget = "the budget of 70 for costs is used up (--max-cost): the next row costs 40, and 5 are left"
        assert [f"{budget}; a larger one continues the job"] == done.errors()
        assert {"/5", "/10", "/20", "/30"} == {path for _, path, _, _ in origin.requests}
        assert (65, 70) == (status(tmp_path / "out")["cost"], status(tmp_path / "out")["max_cost"])
        plan = headgate("plan", *fetch[1:], "80", check=0).stdout
        assert "  cost     90 expected, 65 before, 80 allowed by --max-cost\n" in plan, plan
        assert "--max-cost allows 15 more of costs, and 90 are expected" in plan
        headgate(*fetch, "155", check=0)
        assert len(origin.requests) == len(costs)

        corrected = ("--extract", "cost:int64=$.cost", "--cost-from-response", "cost")
        headgate("fetch", table, "-o", tmp_path / "corrected", *fetch[4:], "60", *corrected, check=0)
        assert status(tmp_path / "corrected")["cost"] == 2 * len(costs)


def test_a_budget_can_be_set_while_the_job_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.held = {"/3"}
        with started("fetch", f"{origin.url}/[1-10]", "-o", out, "-q", "--max-requests", "5") as job:
            wait_for(lambda: len(origin.requests) == 5)
            headgate("set", out, "--max-requests", "8", check=0)
            wait_for(lambda: len(origin.requests) == 8)
            origin.released.set()
            _, printed = job.communicate(timeout=LONGEST_S)
        assert (4, f"error: {used_up('8')}\n") == (job.returncode, printed)
        assert len(origin.requests) == 8 == len(rows(out))


def test_a_budget_that_is_set_meanwhile_counts_what_was_sent_before(tmp_path: Path) -> None:
    with serving() as server:
        with started("fetch", f"{server}/[1-5000]", "-o", tmp_path / "out", "-q", "--rate", "150/s") as job:
            wait_for_requests(server, 20)
            headgate("set", tmp_path / "out", "--max-requests", "400", check=0)
            _, printed = job.communicate(timeout=LONGEST_S)
        assert (4, f"error: {used_up('400')}\n") == (job.returncode, printed)
        assert sent(server) == 400


def test_an_interrupted_job_releases_what_it_has_not_used(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with changing() as origin:
        origin.held = {"/5"}
        fetch = ("fetch", f"{origin.url}/[1-10]", "-o", out, "-q", "--shutdown-timeout", "0", "--max-requests", "12")
        with started(*fetch, "-c", "5") as job:
            wait_for(lambda: len(origin.requests) == 10)
            job.send_signal(signal.SIGINT)
            assert job.wait(LONGEST_S) == 130
        assert status(out)["requests"] == 10
        origin.released.set()
        headgate(*fetch, check=0)
        assert len(origin.requests) == 11


def test_a_job_without_a_directory_has_a_budget_for_its_only_run() -> None:
    with serving() as server:
        done: Done = headgate("fetch", f"{server}/[1-100]", "-o", "-", "--max-requests", "30", check=4)
        assert ["the budget of 30 requests is used up (--max-requests)"] == done.errors()
        assert len(done.rows()) == 30 == sent(server)


def test_rows_of_which_no_request_can_be_made_use_nothing(tmp_path: Path) -> None:
    table, out = tmp_path / "rows.csv", tmp_path / "out"
    with serving() as server:
        lines = [f"{server}/{n},1" if n % 2 else ",100" for n in range(200)]
        table.write_text("url,tokens\n" + "\n".join(lines) + "\n")
        costs = ("--cost-column", "tokens", "--max-cost", "60", "--max-requests", "100", "-q")
        assert "for costs" in headgate("fetch", table, "-o", out, *costs, check=4).errors()[0]
        assert (60, 60, 60) == (sent(server), status(out)["requests"], status(out)["cost"])
        headgate("fetch", table, "-o", out, *costs, "--max-cost", "100", check=3)
        assert (100, 100) == (sent(server), status(out)["requests"])
