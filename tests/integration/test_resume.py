"""The same command resumes a job and says so; a job that can't be resumed is refused with the reason."""

import json
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import headgate as package
from support.origin import changing
from support.results import rows
from support.run import HEADGATE, LONGEST_S, headgate, serving, started, stats, wait_for_requests

ROWS = 1000


@pytest.mark.parametrize(("code", "number"), [(130, signal.SIGINT), (143, signal.SIGTERM)])
def test_an_interrupted_job_is_resumed_and_each_row_is_there_once(
    code: int, number: signal.Signals, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with serving("--delay", "0..0.1") as server:
        command = ("fetch", f"{server}/[1-{ROWS}]", "-o", out, "-c", "50")
        # slowly, so that it can't be finished before the signal comes
        with started(*command, "-c", "5") as process:
            wait_for_requests(server, 100)
            process.send_signal(number)
            _, stderr = process.communicate(timeout=LONGEST_S)
        assert code == process.returncode
        assert "run the same command again to resume" == stderr.splitlines()[-1]
        before = len(rows(out))
        assert 100 <= before < ROWS

        second = headgate(*command, check=0)
        assert f"resuming: {before:,} of 1,000 rows done" == second.stderr.splitlines()[0]
        assert f"done: {ROWS - before} rows in " in second.stderr
        assert "in total 1,000 of 1,000 rows done, 0 failed" in second.stderr
        assert list(range(ROWS)) == [row["row"] for row in rows(out)]
        assert ROWS == stats(server)["requests"]

        third = headgate(*command, check=0)
        assert [
            "finished already: 1,000 rows done: start over with --if-exists overwrite",
            f"results are in {out}: look at them with `headgate show {out}`",
        ] == third.stderr.splitlines()
        assert ROWS == stats(server)["requests"]


def test_a_finished_job_with_failed_rows_names_what_can_be_done_and_sends_no_request(tmp_path: Path) -> None:
    out, summary_file = tmp_path / "out", tmp_path / "s.json"
    with changing() as origin:
        origin.statuses["/2"] = 503
        command = ("fetch", f"{origin.url}/[1-3]", "-o", out, "--retries", "0")
        headgate(*command, check=3)
        again = headgate(*command, "--summary", summary_file, check=3)
        assert (
            f"finished already: 3 rows done, 1 failed: retry those with `headgate retry {out}`, "
            "or start over with --if-exists overwrite"
        ) == again.stderr.splitlines()[0]
        assert 3 == len(origin.requests)
    summary = json.loads(summary_file.read_text())
    assert (0, True, 3, 1) == (
        summary["rows"],
        summary["job"]["finished"],
        summary["job"]["done"],
        summary["job"]["failed"],
    )


def test_quiet_says_nothing_of_what_was_done_before(server: str, tmp_path: Path) -> None:
    command = ("fetch", f"{server}/[1-3]", "-o", tmp_path / "out", "-q")
    assert ["", ""] == [headgate(*command, check=0).stderr for _ in range(2)]


def test_another_job_is_not_gone_on_with(server: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    headgate("fetch", f"{server}/[1-5]", "-o", out, check=0)
    for other in ((f"{server}/[1-3]",), (f"{server}/[1-5]", "-X", "HEAD"), (f"{server}/[1-5]", "--if-exists", "error")):
        refused = headgate("fetch", *other, "-o", out, check=2)
        assert "--if-exists overwrite" in refused.errors()[0]
    assert 5 == len(rows(out))


def test_a_stopped_job_from_standard_input_says_that_it_cannot_be_resumed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving("--delay", "0.05") as server:
        urls = "".join(f"{server}/{row}\n" for row in range(5000)).encode()
        command: list[str | Path] = [HEADGATE, "fetch", "-", "-o", out, "-c", "10"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            feeder = threading.Thread(target=feed, args=[process, urls])
            feeder.start()
            wait_for_requests(server, 20)
            process.send_signal(signal.SIGINT)
            assert process.stderr is not None
            stderr = process.stderr.read().decode()
            feeder.join()
        assert 130 == process.returncode
        assert (
            "this job can't be resumed, because its input can't be read again; a job that reads a file can"
            == (stderr.splitlines()[-1])
        )
        assert "this input can't be read again: if the job is stopped, it can't be resumed" == stderr.splitlines()[0]
        refused = headgate("fetch", "-", "-o", out, stdin=urls, check=2)
        assert "standard input, which can't be read again, so the job can't be resumed" in refused.errors()[0]


def feed(process: "subprocess.Popen[bytes]", data: bytes) -> None:
    """Writes to the process as long as it reads."""
    assert process.stdin is not None
    try:
        process.stdin.write(data)
        process.stdin.close()
    except BrokenPipeError:
        pass


def test_a_stopped_job_to_standard_output_says_that_it_cannot_be_resumed() -> None:
    with (
        serving("--delay", "0.05") as server,
        started("fetch", f"{server}/[1-100000]", "-o", "-", "-c", "10") as process,
    ):
        wait_for_requests(server, 20)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LONGEST_S)
    assert 130 == process.returncode
    assert (
        "this job can't be resumed: its results went to standard output; with -o DIRECTORY it can"
        == (stderr.splitlines()[-1])
    )


def test_the_same_call_resumes_in_python(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with serving("--delay", "0..0.1") as server:

        def interrupt_after_some() -> None:
            wait_for_requests(server, 40)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt_after_some)
        thread.start()
        with pytest.raises(package.Interrupted) as raised:
            # so slowly that it can't be finished before the signal comes, however busy the machine is
            package.fetch(f"{server}/[1-{ROWS}]", out, concurrency=2)
        thread.join()
        assert raised.value.summary is not None
        before = raised.value.summary.rows
        summary = package.fetch(f"{server}/[1-{ROWS}]", out, concurrency=50)
    assert summary.job is not None
    assert (ROWS - before, before, ROWS, True) == (
        summary.rows,
        summary.job.rows_before,
        summary.job.done,
        summary.job.finished,
    )


def test_progress_in_python_begins_with_what_is_done(
    server: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for progress in (None, True):
        package.fetch(f"{server}/[1-3]", tmp_path / "out", progress=progress)
    assert (
        "finished already: 3 rows done: start over with if_exists='overwrite'" == capfd.readouterr().err.splitlines()[0]
    )
