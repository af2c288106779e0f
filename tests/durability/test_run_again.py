"""The same command resumes a job, or says why it can't."""

import signal
from pathlib import Path

import pytest

from support import commits, ledger
from support.mixture import mixture, write_urls
from support.results import table
from support.run import LONGEST_S, headgate, serving, started, stats

ROWS = 8_000


class Again:
    """A job with rows of every kind, and the command for it."""

    def __init__(self, server: str, directory: Path, *, form: str = "parquet") -> None:
        self.server, self.out = server, directory / "out"
        self.expected = mixture(server, ROWS)
        self.source = write_urls(directory / "urls.txt", self.expected)
        self.requests_before = stats(server)["requests"]
        flags = ["--format", form, "-c", "16", "--commit-interval", "0.2", "--retries", "0"]
        self.command: list[str | Path] = ["fetch", self.source, "-o", self.out, *flags]

    def requests(self) -> int:
        """Returns the requests of the job, over all runs."""
        seen: int = stats(self.server)["requests"] - self.requests_before
        return seen

    def stop(self, number: signal.Signals) -> tuple[int, str]:
        """Starts the job, and sends a signal after two commits; returns the exit code and the output."""
        with started(*self.command) as process:
            commits.wait_for(2, self.out, process)
            process.send_signal(number)
            _, stderr = process.communicate(timeout=LONGEST_S)
        return process.returncode, stderr


@pytest.fixture
def job(server: str, tmp_path: Path) -> Again:
    return Again(server, tmp_path)


def files(directory: Path) -> dict[Path, tuple[int, int]]:
    """Returns the files with their sizes and modification times, to see whether anything was changed."""
    of_each_run = {"lock", "series.ndjson"}
    found = {path: path.stat() for path in directory.rglob("*") if path.is_file() and path.name not in of_each_run}
    return {path: (stat.st_size, stat.st_mtime_ns) for path, stat in found.items()}


@pytest.mark.parametrize("form", ["parquet", "ndjson"])
@pytest.mark.parametrize(("code", "number"), [(130, signal.SIGINT), (143, signal.SIGTERM)])
def test_an_orderly_stop_costs_no_request(
    code: int, number: signal.Signals, form: str, server: str, tmp_path: Path
) -> None:
    job = Again(server, tmp_path, form=form)
    stopped, stderr = job.stop(number)
    assert code == stopped, stderr
    done = commits.done(job.out)
    assert 0 < done < ROWS
    assert done == sum(len(ledger.ordinals(part)) for part in ledger.parts(job.out)) == job.requests()
    assert [] == ledger.leftovers(job.out)

    resumed = headgate(*job.command, check=3)
    assert f"resuming: {done:,}" in resumed.stderr
    assert ROWS == job.requests()
    assert [] == ledger.mistakes(job.out, job.expected)


def test_a_second_process_is_refused_with_the_id_of_the_first(job: Again) -> None:
    with started(*job.command) as first:
        commits.wait_for(1, job.out, first)
        second = headgate(*job.command)
        still_running = first.poll() is None
        code = first.wait(LONGEST_S)
    assert still_running, "the second was not started in time to mean anything"
    assert 2 == second.code, second.stderr
    assert f"pid {first.pid}" in second.errors()[0]
    assert (3, ROWS) == (code, job.requests())
    assert [] == ledger.mistakes(job.out, job.expected)


def test_a_finished_job_says_so_and_sends_no_request(job: Again) -> None:
    headgate(*job.command, check=3)
    before = files(job.out)
    again = headgate(*job.command, check=3)
    assert "done" in again.stderr
    assert (ROWS, before) == (job.requests(), files(job.out))


def test_a_finished_job_without_failed_rows_ends_with_0(server: str, tmp_path: Path) -> None:
    command = ["fetch", f"{server}/[1-500]", "-o", str(tmp_path / "out")]
    before = stats(server)["requests"]
    headgate(*command, check=0)
    headgate(*command, check=0)
    assert 500 == stats(server)["requests"] - before


def test_an_input_that_has_changed_is_refused_and_nothing_is_touched(job: Again) -> None:
    job.stop(signal.SIGINT)
    before, requests_before = files(job.out), job.requests()
    rows = job.source.read_text()
    for changed, way_on in [
        (f"{job.server}/another\n" + rows.partition("\n")[2], "--if-exists overwrite"),
        (f"{rows}{job.server}/more\n", "--allow-append"),
    ]:
        job.source.write_text(changed)
        refused = headgate(*job.command)
        assert 0 != refused.code
        assert str(job.source) in refused.errors()[0]
        assert way_on in refused.errors()[0]
        assert (before, requests_before) == (files(job.out), job.requests())


def test_another_job_is_refused_by_the_name_of_what_differs(job: Again) -> None:
    job.stop(signal.SIGINT)
    before, requests_before = files(job.out), job.requests()
    for named, value in {
        "--fail-on": "404",
        "--format": "ndjson",
        "--header": "X-Other: 1",
        "--method": "HEAD",
    }.items():
        refused = headgate(*job.command, named, value)
        assert 0 != refused.code
        assert named in refused.errors()[0]
        assert (before, requests_before) == (files(job.out), job.requests())


def test_how_the_work_is_done_may_change_from_run_to_run(job: Again) -> None:
    job.stop(signal.SIGINT)
    flags = ["-c", "64", "--timeout", "20", "--commit-interval", "5", "--part-size", "1MiB", "--read-ahead", "2000"]
    headgate(*job.command, *flags, check=3)
    assert [] == ledger.mistakes(job.out, job.expected)


def test_no_resume_resumes_nothing(job: Again) -> None:
    job.stop(signal.SIGINT)
    before, requests_before = files(job.out), job.requests()
    refused = headgate(*job.command, "--if-exists", "error")
    assert 0 != refused.code
    assert "--if-exists error" in refused.errors()[0]
    assert (before, requests_before) == (files(job.out), job.requests())


def test_fresh_starts_over(job: Again) -> None:
    job.stop(signal.SIGINT)
    requests_before = job.requests()
    headgate(*job.command, "--if-exists", "overwrite", check=3)
    assert requests_before + ROWS == job.requests()
    assert [] == ledger.mistakes(job.out, job.expected)


def test_fresh_takes_another_job_also(job: Again) -> None:
    job.stop(signal.SIGINT)
    headgate("fetch", f"{job.server}/[1-3]", "-o", job.out, "--if-exists", "overwrite", check=0)
    assert [0, 1, 2] == table(job.out)["row"].to_pylist()


def test_standard_input_cannot_be_resumed_and_the_refusal_says_so(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving() as server:
        urls = "".join(f"{server}/{row}\n" for row in range(100))
        headgate("fetch", "-", "-o", out, stdin=urls, check=0)
        refused = headgate("fetch", "-", "-o", out, stdin=urls)
        assert 0 != refused.code
        assert "standard input" in refused.errors()[0]
        assert (100, 100) == (stats(server)["requests"], table(out).num_rows)
