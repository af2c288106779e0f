"""Standard streams that are closed or full, and Ctrl-C while the command starts."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.run import HEADGATE, LONGEST_S, serving

INTERRUPTED = """
import builtins, os, signal, sys
from headgate.__main__ import main

imports, real = 0, builtins.__import__
number = int(sys.argv.pop(1))

def interrupt(*arguments, **keywords):
    global imports
    imports += 1
    if imports == number:
        os.kill(os.getpid(), signal.SIGINT)
    return real(*arguments, **keywords)

builtins.__import__ = interrupt
sys.exit(main())
"""
"""The command, which gets SIGINT at the import with this number."""


def shell(script: str, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs a script of the shell, in which `$0` is the command."""
    return subprocess.run(
        ["/bin/sh", "-c", script, HEADGATE, *arguments],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=LONGEST_S,
        check=False,
    )


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(
    "streams", [">&-", ">/dev/full", "2>&-", "2>/dev/full", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full 2>&1"]
)
def test_a_job_needs_no_standard_streams(
    streams: str, *, buffered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if buffered else "1")
    with serving() as server:
        done = shell(f'"$0" fetch "$1" -o results {streams}', tmp_path, f"{server}/[1-20]")
    assert (0, "") == (done.returncode, done.stdout)
    assert "Traceback" not in done.stderr
    assert 0 == shell('"$0" status results', tmp_path).returncode


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize(("stdout", "reason"), [(">&-", "bad file descriptor"), (">/dev/full", "no space left")])
@pytest.mark.parametrize(
    "command", ["status results", "show results", "status results --as-json", "--help", "fetch $1 -q -o -", "--version"]
)
def test_what_is_for_standard_output_is_an_error_if_it_can_not_be_written(  # noqa: PLR0913 - fixtures and cases
    command: str, stdout: str, reason: str, *, buffered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONUNBUFFERED", "" if buffered else "1")
    with serving() as server:
        shell('"$0" fetch "$1" -o results', tmp_path, f"{server}/[1-20]")
        done = shell(f'"$0" {command} {stdout}', tmp_path, f"{server}/[1-20]")
    (error,) = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (1, True) == (done.returncode, reason in error.lower())
    assert "error: can't write to standard output: " in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mistake_is_one_without_standard_error(tmp_path: Path) -> None:
    assert 2 == shell('"$0" fetch --unknown 2>/dev/full', tmp_path).returncode
    assert 2 == shell('"$0" fetch --unknown 2>&-', tmp_path).returncode


def test_standard_input_that_is_closed_is_a_mistake_where_a_flag_reads_it(tmp_path: Path) -> None:
    done = shell('"$0" fetch http://localhost/ -o results --bearer @- <&-', tmp_path)
    assert (2, True) == (done.returncode, "can't read standard input: it is closed" in done.stderr)


def test_ctrl_c_while_the_command_starts_prints_no_traceback(tmp_path: Path) -> None:
    number = 1
    while True:
        done = subprocess.run(
            [sys.executable, "-c", INTERRUPTED, str(number), "status", "results"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        assert "Traceback" not in done.stderr, number
        if done.returncode == 2:  # it made fewer imports
            break
        assert done.returncode in (-signal.SIGINT, 128 + signal.SIGINT), (number, done.stderr)
        number += 1 + number // 4
    assert number > 100
