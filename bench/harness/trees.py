"""What a process and all below it cost."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)
"""Of its own and of those below that have ended and were waited for, in the program and in the kernel."""


def cpu_s(pid: int) -> float:
    """CPU seconds so far, of those that run and of those that were waited for."""
    fields = _fields()
    return sum(sum(map(int, fields[each][_TIMES])) for each in _tree(pid, fields)) / _CLOCK_TICKS


def memory_bytes(pid: int) -> int:
    """What they hold now; what several share counts once."""
    return sum(_share_bytes(each) for each in _tree(pid, _fields()))


def _fields() -> dict[int, list[str]]:
    """Of each process, what stands behind its name, which may contain anything."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            found[int(place.name)] = (place / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _tree(pid: int, fields: dict[int, list[str]]) -> Iterator[int]:
    if pid in fields:
        yield pid
    for each, values in fields.items():
        if int(values[_PARENT]) == pid:
            yield from _tree(each, fields)


def _share_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
