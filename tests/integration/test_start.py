"""Runs in the background of a Python program, and their end when the program gets a signal or ends."""

import asyncio
import os
import pty
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headgate
from support.results import table
from support.run import LONGEST_S, serving, stats, wait_for, wait_for_requests
from support.terminal import read

HIDE_CURSOR, SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"


@contextmanager
def running(program: str, directory: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Runs a Python program, which is killed at the end if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def rows_of(out: Path) -> int:
    """Rows of a job that came to an orderly end, which are there."""
    status = headgate.Job.open(out).status()
    assert [True] == [run.ended for run in status.runs]
    assert table(out).num_rows == status.done
    return status.done


FETCH = """
    import sys, headgate
    headgate.fetch(f"{sys.argv[1]}/[1-100000]", "out", concurrency=20)
"""
IN_A_THREAD = """
    import sys, threading, headgate
    def fetch():
        try:
            headgate.fetch(f"{sys.argv[1]}/[1-100000]", "out", concurrency=20)
        except headgate.Interrupted as interrupted:
            print(interrupted.summary.rows)
    thread = threading.Thread(target=fetch)
    thread.start()
"""
TWO = """
    import sys, threading, headgate
    runs = [headgate.start(f"{sys.argv[1]}/{name}[1-100000]", name, concurrency=20) for name in ("a", "b")]
"""


def test_several_runs_run_at_once(server: str, tmp_path: Path) -> None:
    with headgate.start(f"{server}/[1-300]", tmp_path / "a") as first:
        with headgate.start(f"{server}/[1-200]", tmp_path / "b") as second:
            pass
        assert 200 == second.wait().succeeded
    assert 300 == first.wait().succeeded
    assert (300, 200) == (rows_of(tmp_path / "a"), rows_of(tmp_path / "b"))


def test_a_run_tells_how_far_it_is_and_commits_what_is_open_when_it_is_stopped(tmp_path: Path) -> None:
    with serving("--delay", "0..0.2") as server:
        run = headgate.start(f"{server}/[1-100000]", tmp_path, concurrency=20)
        wait_for(lambda: run.statistics().rows >= 20)
        run.stop()
        summary = run.wait()
        assert (True, summary.rows) == (summary.interrupted, rows_of(tmp_path))
        assert stats(server)["requests"] == summary.rows
        assert run.statistics().stopping
    with pytest.raises(headgate.OutputError, match="if_exists='overwrite'"):
        headgate.start(f"{server}/[1-5]", tmp_path)


def test_a_run_in_asyncio_does_not_block_the_loop_and_is_stopped_by_cancelling(tmp_path: Path) -> None:
    async def main(server: str) -> bool:
        run = headgate.start(f"{server}/[1-100000]", tmp_path, concurrency=20)
        waiting = asyncio.ensure_future(run)
        while run.statistics().rows < 20:  # noqa: ASYNC110 - the engine sets no events of asyncio
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    with serving("--delay", "0..0.2") as server:
        assert asyncio.run(main(server))
    assert 20 <= rows_of(tmp_path) < 100_000


def test_sigterm_ends_a_program_that_fetches_by_sigterm_when_all_is_written(tmp_path: Path) -> None:
    with serving("--delay", "0..0.2") as server, running(FETCH, tmp_path, server) as process:
        wait_for_requests(server, 100)
        process.send_signal(signal.SIGTERM)
        assert -signal.SIGTERM == process.wait(LONGEST_S)
        assert stats(server)["requests"] == rows_of(tmp_path / "out")


@pytest.mark.parametrize("then", ["threading.Event().wait()", "headgate.fetch(f'{sys.argv[1]}/[1-100000]', 'c')"])
def test_sigterm_ends_a_program_when_all_of_its_runs_are_written(then: str, tmp_path: Path) -> None:
    with serving("--delay", "0..0.2") as server, running(TWO + "    " + then, tmp_path, server) as process:
        wait_for_requests(server, 600 if "fetch" in then else 100)
        process.send_signal(signal.SIGTERM)
        assert -signal.SIGTERM == process.wait(LONGEST_S)
        assert stats(server)["requests"] == sum(rows_of(out) for out in tmp_path.iterdir())


def test_sigterm_is_handled_while_something_runs_and_restored_after_the_last_run(server: str, tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        runs = [headgate.start(f"{server}/delay/3600", tmp_path / name) for name in ("a", "b")]
        for run in runs:
            assert signal.SIG_DFL is not signal.getsignal(signal.SIGTERM)
            run.stop(now=True)
            assert run.wait().interrupted
        assert signal.SIG_DFL is signal.getsignal(signal.SIGTERM)
    finally:
        signal.signal(signal.SIGTERM, before)


def test_sigterm_leaves_the_terminal_of_a_program_that_waits_as_it_was(tmp_path: Path) -> None:
    program = """
        import sys, headgate
        headgate.start(f"{sys.argv[1]}/[1-100000]", "out", concurrency=20, progress=True).wait()
    """
    ours, theirs = pty.openpty()
    shown = ""
    with (
        serving("--delay", "0..0.2") as server,
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(program), server],
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm"},
        ) as process,
    ):
        os.close(theirs)
        try:
            while chunk := read(ours):
                if HIDE_CURSOR in chunk:
                    process.send_signal(signal.SIGTERM)
                shown += chunk
            assert -signal.SIGTERM == process.wait(LONGEST_S)
        finally:
            process.kill()
            os.close(ours)
    assert shown.endswith(SHOW_CURSOR)
    assert rows_of(tmp_path / "out") < 100_000


def test_a_program_that_handles_sigterm_itself_is_not_interfered_with(tmp_path: Path) -> None:
    program = """
        import signal, sys, headgate
        signal.signal(signal.SIGTERM, lambda *_: print("heard", flush=True))
        headgate.fetch(f"{sys.argv[1]}/[1-200]", "out", concurrency=20)
        print("done")
    """
    with serving("--delay", "0..0.2") as server, running(program, tmp_path, server) as process:
        wait_for_requests(server, 20)
        process.send_signal(signal.SIGTERM)
        assert ("heard\ndone\n", "") == process.communicate(timeout=LONGEST_S)
    assert (0, 200) == (process.returncode, rows_of(tmp_path / "out"))


def test_ctrl_c_interrupts_what_fetches_in_another_thread(tmp_path: Path) -> None:
    program = IN_A_THREAD + "    threading.Event().wait()"
    with serving("--delay", "0..0.2") as server, running(program, tmp_path, server) as process:
        wait_for_requests(server, 100)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=LONGEST_S)
        assert stats(server)["requests"] == rows_of(tmp_path / "out")
    assert f"{rows_of(tmp_path / 'out')}\n" == stdout
    assert "KeyboardInterrupt" in stderr


@pytest.mark.parametrize("then", ["thread.join()", "pass"])
def test_ctrl_c_ends_a_program_that_only_waits_for_a_thread_when_all_is_written(then: str, tmp_path: Path) -> None:
    # Python itself does not wait for the thread then.
    with serving("--delay", "0..0.2") as server, running(IN_A_THREAD + "    " + then, tmp_path, server) as process:
        wait_for_requests(server, 100)
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=LONGEST_S)
        assert stats(server)["requests"] == rows_of(tmp_path / "out")
    assert "KeyboardInterrupt" in stderr


def test_a_thread_that_is_not_joined_fetches_to_its_end(tmp_path: Path) -> None:
    program = IN_A_THREAD.replace("100000", "200")
    with serving("--delay", "0..0.2") as server, running(program, tmp_path, server) as process:
        assert ("", "") == process.communicate(timeout=LONGEST_S)
    assert (0, 200) == (process.returncode, rows_of(tmp_path / "out"))


def test_a_program_that_ends_stops_its_runs_and_waits_until_all_is_written(tmp_path: Path) -> None:
    program = (
        TWO
        + """
    while any(run.statistics().rows < 20 for run in runs):
        pass
    print("the end")
    """
    )
    with serving("--delay", "0..0.2") as server, running(program, tmp_path, server) as process:
        assert ("the end\n", "") == process.communicate(timeout=LONGEST_S)
        assert stats(server)["requests"] == sum(rows_of(out) for out in tmp_path.iterdir())
    assert 0 == process.returncode


def test_a_child_process_of_a_fork_leaves_the_runs_to_its_parent(tmp_path: Path) -> None:
    program = """
        import os, sys, headgate
        with headgate.start(f"{sys.argv[1]}/[1-200]", "out", concurrency=20) as run:
            child = os.fork()
            if child == 0:
                sys.exit(7)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    with serving("--delay", "0..0.2") as server, running(program, tmp_path, server) as process:
        assert "7\n" == process.communicate(timeout=LONGEST_S)[0]
    assert (0, 200) == (process.returncode, rows_of(tmp_path / "out"))


def test_a_run_can_be_started_and_waited_for_in_any_thread(server: str, tmp_path: Path) -> None:
    rows: list[int] = []

    def fetch(name: str) -> None:
        rows.append(headgate.start(f"{server}/[1-100]", tmp_path / name).wait().rows)

    threads = [threading.Thread(target=fetch, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [100] * 3 == rows
