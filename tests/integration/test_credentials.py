"""Credentials that are wrong stop a job before they cost much, and those that expire are renewed while it runs."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

import headgate as package
from support.run import LONGEST_S, headgate, started, wait_for
from support.tokens import TokenServer, token_server

IN_FLIGHT = ("-c", "4")


def totals(out: Path) -> tuple[int, int]:
    status = package.Job.open(out).status()
    return status.succeeded, status.failed


def fetch(server: TokenServer, rows: int, out: Path, *flags: str | Path) -> tuple[str | Path, ...]:
    return ("fetch", f"{server.url}/[1-{rows}]", "-o", out, *IN_FLIGHT, *flags)


@pytest.mark.parametrize("refusal", [401, 403, 407])
def test_a_wrong_token_stops_the_job_after_twenty_rows_and_the_same_command_continues(
    tmp_path: Path, refusal: int
) -> None:
    out, token = tmp_path / "out", tmp_path / "token"
    token.write_text("wrong\n")
    with token_server() as server:
        server.refusal = refusal
        job = fetch(server, 500, out, "--bearer", f"@{token}")
        (error,) = headgate(*job, check=4).errors()
        assert f"{server.url} refuses the credentials" in error
        assert f"status {refusal}, the first is row " in error
        assert len(server.requests) < 100
        token.write_text("right\n")
        server.valid = {"Bearer right"}
        headgate(*job, check=0 if refusal == 403 else 3)
        if refusal != 403:
            headgate("retry", out, "--only", str(refusal), "--bearer", f"@{token}", check=0)
            assert totals(out) == (500, 0)


def test_few_rows_that_are_all_refused_never_end_with_0(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with token_server() as server:
        done = headgate(*fetch(server, 7, out), "-H", "X-Api-Key: wrong", check=3)
        assert "status:401" in done.stderr
        assert totals(out) == (0, 7)
        without = headgate("fetch", f"{server.url}/[1-7]", "-o", tmp_path / "plain", check=0)
        assert "(4xx: 7)" in without.stderr


def test_an_origin_that_refuses_the_credentials_does_not_stop_the_others(tmp_path: Path) -> None:
    out, urls = tmp_path / "out", tmp_path / "urls.txt"
    with token_server() as wrong, token_server() as right:
        right.valid = {"Bearer t"}
        urls.write_text("".join(f"{wrong.url}/{n}\n{right.url}/{n}\n" for n in range(300)))
        token = tmp_path / "token"
        token.write_text("t")
        flags = ("--bearer", f"@{token}", "--credentials-for", wrong.url, "--credentials-for", right.url)
        done = headgate("fetch", urls, "-o", out, *IN_FLIGHT, *flags, check=3)
        assert f"{wrong.url} refuses the credentials" in done.stderr
        assert len(wrong.requests) < 100
        assert totals(out) == (300, 300)
        errors = package.Job.open(out).status().errors
        assert errors["credentials"] > 200
        wrong.valid = {"Bearer t"}
        headgate("retry", out, "--only", "401", *flags, check=0)
        assert totals(out) == (600, 0)


def test_a_token_that_expires_is_fetched_anew_once_and_no_row_fails(tmp_path: Path) -> None:
    out, issued = tmp_path / "out", tmp_path / "issued"
    with token_server() as server:
        # Each run of the command appends a line, and the token is the number of lines.
        command = f"echo >> {issued}; sleep 0.05; wc -l < {issued}"
        server.valid, server.uses = {"Bearer 1"}, 40
        current = 1

        def expired() -> None:
            nonlocal current
            current += 1
            server.valid = {f"Bearer {current}"}

        server.expired = expired  # type: ignore[method-assign]
        # Slow enough that a token is valid for more than the shortest time between two renewals.
        slowly = ("--rate", "30/s", "--retries", "0")
        headgate(*fetch(server, 100, out, "--token-command", command, "-X", "POST", "-d", "x", *slowly), check=0)
        assert totals(out) == (100, 0)
        assert len(issued.read_text()) == 3
        refused = server.statuses().count(401)
        assert 2 <= refused <= 2 * 4, "those in flight when a token expires"
        assert len(server.requests) == 100 + refused
        attempts = pa.table(package.Job.open(out).rows())["attempts"].to_pylist()
        assert sum(attempts) == len(server.requests)


def test_a_secret_file_is_read_again_after_a_refusal(tmp_path: Path) -> None:
    out, token = tmp_path / "out", tmp_path / "headers"
    token.write_text("X-Api-Key: 1\nAuthorization: Bearer 1\n")
    with token_server() as server:
        server.valid, server.uses = {"Bearer 1"}, 50

        def expired() -> None:
            server.uses = 0
            token.write_text("X-Api-Key: 2\nAuthorization: Bearer 2\n")
            server.valid = {"Bearer 2"}

        server.expired = expired  # type: ignore[method-assign]
        headgate(*fetch(server, 120, out, "-H", f"@{token}", "-H", "Accept: */*"), check=0)
        assert totals(out) == (120, 0)
        assert {"Bearer 1", "Bearer 2"} == {token for *_, token, _ in server.requests}


def test_a_secret_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    with token_server() as server:
        server.valid = {"Bearer old", "Bearer new"}
        job = fetch(server, 400, tmp_path / "out", "--bearer", f"@{token}", "--rate", "100/s", "-q")
        with started(*job) as running:
            wait_for(lambda: len(server.requests) > 5)
            token.write_text("new")
            wait_for(lambda: server.requests[-1][2] == "Bearer new")
            assert running.wait(LONGEST_S) == 0
        assert 401 not in server.statuses()


def test_a_token_command_runs_again_after_its_time(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with token_server() as server:
        server.valid = {"Bearer t"}
        flags = ("--token-command", f"echo >> {runs}; echo t", "--token-ttl", "0.1", "--rate", "50/s", "-q")
        headgate(*fetch(server, 50, tmp_path / "out", *flags), check=0)
        assert len(runs.read_text()) > 2
        assert 401 not in server.statuses()


def test_a_token_command_that_fails_stops_the_job_with_its_last_line(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with token_server() as server:
        flags = ("--token-command", "echo no session >&2; exit 3", "--token-timeout", "0.5")
        done = headgate(*fetch(server, 5, out, *flags), check=4)
        assert "it failed with exit status: 3: no session" in done.stderr
        assert "--token-timeout" in done.errors()[0]
        # What a command writes may be a secret.
        assert "no session" not in headgate("status", out, "--as-json").stdout
        missing = headgate(*fetch(server, 5, tmp_path / "b", "--token-command", "no-such-cmd"), check=4)
        assert "not found" in missing.stderr
        assert server.requests == []
        # The same command continues.
        server.valid = {"Bearer t"}
        headgate(*fetch(server, 5, out, "--token-command", "echo t"), check=0)


def test_a_running_job_takes_the_token_of_another_file(tmp_path: Path) -> None:
    out, old, new = tmp_path / "out", tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    new.write_text("new")
    with token_server() as server:
        server.valid = {"Bearer old"}
        with started(*fetch(server, 400, out, "--bearer", f"@{old}", "--rate", "100/s", "-q")) as job:
            wait_for(lambda: len(server.requests) > 20)
            for wrong in ("typed", f"@{tmp_path / 'none'}"):
                assert "typed" not in headgate("set", out, "--bearer", wrong, check=2).stderr
            assert "applied" in headgate("set", out, "--bearer", f"@{new}", check=0).stdout
            wait_for(lambda: server.requests[-1][2] == "Bearer new")
            server.valid = {"Bearer new"}
            assert job.wait(LONGEST_S) in (0, 3)
        control = "".join(path.read_text() for path in (out / "_headgate").glob("control*"))
        assert "new" not in json.dumps(control).replace(str(new), "")
    refused = headgate("set", out, "--bearer", "typed", check=2)
    assert "typed" not in refused.stderr


def test_a_job_that_stopped_itself_probes_with_a_few_rows(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with token_server() as server:
        server.refusal = 500
        job = fetch(server, 5000, out, "--retries", "0", "-c", "64")
        (error,) = headgate(*job, check=4).errors()
        assert "1,000 of them with status:500, the first of these: row " in error
        before = len(server.requests)
        (again,) = headgate(*job, check=4).errors()
        assert "the job had stopped, and the first 20 rows of this run failed, too" in again
        assert len(server.requests) == before + 20
        server.refusal = 200
        headgate(*job, check=3)
        assert totals(out)[0] == 5000 - before - 20


def test_a_probe_continues_while_its_host_is_overloaded(tmp_path: Path) -> None:
    out, urls = tmp_path / "out", tmp_path / "urls.txt"
    with token_server() as server:
        server.refusal = 503
        urls.write_text("".join(f"{server.url}/{n}\n" for n in range(2000)))
        job = ("fetch", urls, "-o", out, *IN_FLIGHT, "-q", "--retry-delay", "0.1")
        headgate(*job, "--retries", "0", "--max-failures", "10", check=4)
        with started(*job, "--retries", "8", "--max-failures", "100") as again:
            before = len(server.requests)
            wait_for(lambda: len(server.requests) > before + 20)
            server.refusal = 200
            assert again.wait(LONGEST_S) == 3
        succeeded, failed = totals(out)
        assert (succeeded + failed, failed < 50) == (2000, True)


def test_a_retry_begins_without_a_probe(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with token_server() as server:
        server.refusal = 500
        job = fetch(server, 60, out, "--retries", "0", "--max-failures", "50", "-q")
        headgate(*job, check=4)
        before = len(server.requests)
        headgate("retry", out, "--max-failures", "never", "-q", "--retries", "0", check=3)
        assert len(server.requests) - before > 40


def test_a_retry_may_name_a_budget_alone(tmp_path: Path) -> None:
    out, table = tmp_path / "out", tmp_path / "rows.csv"
    with token_server() as server:
        server.refusal = 500
        table.write_text("url,tokens\n" + "".join(f"{server.url}/{n},2\n" for n in range(10)))
        costs = ("--cost-column", "tokens", "--max-cost", "100")
        headgate("fetch", table, "-o", out, *IN_FLIGHT, *costs, "--retries", "0", "-q", check=3)
        headgate("retry", out, "--max-cost", "26", "-q", check=4)
        assert len(server.requests) == 13
        headgate("retry", out, "-q", check=4)
        assert len(server.requests) == 13, "the budget of the last run counts"


def test_results_stay_if_there_is_too_little_space_to_replace_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with token_server() as server:
        server.refusal = 200
        headgate(*fetch(server, 3, out, "-q"), check=0)
        replace = ("--if-exists", "overwrite", "--min-free", "900TiB")
        headgate(*fetch(server, 3, out, *replace), check=1)
        assert totals(out) == (3, 0)
