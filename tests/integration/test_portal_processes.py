"""A portal in programs that are interrupted, forked, or end without closing it."""

import signal
import subprocess
import sys
from pathlib import Path

from support.run import LONGEST_S, printed_by

# Two threads write here: each line is one system call, so that no buffer is shared.
INTERRUPTED = """
import asyncio
import os
import headgate

async def stay():
    os.write(1, b"begun\\n")
    try:
        await asyncio.sleep(1000)
    finally:
        os.write(1, b"cancelled\\n")

portal = headgate.Portal()
try:
    portal.call(stay)
except KeyboardInterrupt:
    os.write(1, b"interrupted\\n")
portal.close()
"""

NEVER_CLOSED = """
import asyncio
import headgate

async def stay():
    try:
        await asyncio.sleep(1000)
    finally:
        print("cancelled", flush=True)

portal = headgate.Portal()
portal.start(stay)
print(portal.call(int))
"""

FORKED = """
import os
import warnings
import headgate

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of forks in processes with threads
with headgate.Portal() as portal:
    portal.call(int)
    child = os.fork()
    if not child:
        try:
            portal.call(int)
        except RuntimeError as error:
            print(error, flush=True)
        portal.close()
        with headgate.Portal() as own:
            print(own.call(int, "5"), flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    print(portal.call(int, "7"))
"""


def test_ctrl_c_ends_the_wait_and_cancels_the_call(tmp_path: Path) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-W", "error", "-c", INTERRUPTED], cwd=tmp_path, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdout is not None
        assert "begun\n" == process.stdout.readline()
        process.send_signal(signal.SIGINT)
        rest, stderr = process.communicate(timeout=LONGEST_S)
    assert (0, "") == (process.returncode, stderr)
    assert {"interrupted", "cancelled"} == set(rest.split())


def test_a_program_ends_that_has_closed_nothing(tmp_path: Path) -> None:
    assert "0\ncancelled\n" == printed_by(NEVER_CLOSED, tmp_path)


def test_a_forked_process_gets_an_error_and_can_make_its_own(tmp_path: Path) -> None:
    message = "the portal belongs to the process that was forked: make a new one here"
    assert f"{message}\n5\n7\n" == printed_by(FORKED, tmp_path)
