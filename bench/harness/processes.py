"""Runs one client on one core, and measures its cost."""

import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SAMPLE_S: Final = 0.1
_LEAST_SAMPLE_S: Final = 0.001
_SAMPLE_SHARE: Final = 0.1
"""The interval between samples as a share of the elapsed time, at most `_SAMPLE_S`."""
_CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """A process that has ended; `code` as in `subprocess`, negative for a signal."""

    code: int
    stdout: str
    stderr: str
    wall_s: float
    cpu_s: float
    user_cpu_s: float
    peak_rss_bytes: int


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """Makes processes that are started in the block run on this core only; `None`: on any."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def run(
    command: Sequence[str], *, core: int | None, longest_s: float, is_due: Callable[[int], bool] | None = None
) -> Ended:
    """Runs `command` to its end; kills it after `longest_s`, or when `is_due` returns true for its process.

    The kernel starts a child's `ru_maxrss` with the peak of the process that forked it, so that figure is the child's
    own only if it is above ours. Otherwise the peak in /proc while the child runs is used.
    """
    ours = peak_rss_bytes(os.getpid())
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        with pinned(core):
            started = time.perf_counter()
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
        seen = _watch(process, started + longest_s, is_due)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)  # it is reaped, so Popen must not wait for it
        out.seek(0)
        err.seek(0)
        peak = usage.ru_maxrss * 1024
        return Ended(
            code=process.returncode,
            stdout=out.read().decode(errors="replace"),
            stderr=err.read().decode(errors="replace"),
            wall_s=wall_s,
            cpu_s=usage.ru_utime + usage.ru_stime,
            user_cpu_s=usage.ru_utime,
            peak_rss_bytes=peak if peak > ours else seen,
        )


def _watch(process: subprocess.Popen[bytes], deadline: float, is_due: Callable[[int], bool] | None) -> int:
    """Waits until the process has ended, without reaping it, and returns the highest peak."""
    peak, wait_s = 0, 0.0
    begun = time.perf_counter()
    ended = os.pidfd_open(process.pid)
    try:
        while not select.select([ended], [], [], wait_s)[0]:
            wait_s = min(_SAMPLE_S, max(_LEAST_SAMPLE_S, _SAMPLE_SHARE * (time.perf_counter() - begun)))
            peak = max(peak, peak_rss_bytes(process.pid))
            if time.perf_counter() > deadline or (is_due is not None and is_due(process.pid)):
                process.kill()
    except BaseException:
        process.kill()
        process.wait()
        raise
    finally:
        os.close(ended)
    return peak


def peak_rss_bytes(pid: int) -> int:
    """Returns the peak memory of a running process; 0 if it has just ended."""
    return _status_bytes(pid, "VmHWM:")


def rss_bytes(pid: int) -> int:
    """Returns the memory of a running process; 0 if it has just ended."""
    return _status_bytes(pid, "VmRSS:")


def _status_bytes(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    return 0


def cpu_s(pid: int) -> float:
    """Returns the CPU seconds that a running process has used so far."""
    # The name of the command, in brackets, may contain any character.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _CLOCK_TICKS
