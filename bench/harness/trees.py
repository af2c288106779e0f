"""The cost of a process and its descendants."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_CLOCK_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PARENT: Final = 1
_TIMES: Final = slice(11, 15)
"""User and system times, of the process and of its children that have ended and were waited for."""


def cpu_s(pid: int) -> float:
    """Returns the CPU seconds so far, of running processes and of those that were waited for."""
    fields = _fields()
    return sum(sum(map(int, fields[each][_TIMES])) for each in _below(pid, fields)) / _CLOCK_TICKS


def memory_bytes(pid: int) -> int:
    """Returns the memory of the processes now; shared memory counts once."""
    return sum(_share_bytes(each) for each in tree(pid))


def tree(pid: int) -> list[int]:
    """Returns the process and its descendants."""
    return list(_below(pid, _fields()))


def _fields() -> dict[int, list[str]]:
    """Returns the fields of each process after its name, which may contain any character."""
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            found[int(place.name)] = (place / "stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def _below(pid: int, fields: dict[int, list[str]]) -> Iterator[int]:
    if pid in fields:
        yield pid
    for each, values in fields.items():
        if int(values[_PARENT]) == pid:
            yield from _below(each, fields)


def _share_bytes(pid: int) -> int:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
