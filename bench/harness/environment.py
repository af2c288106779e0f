"""The machine and the versions of a measurement, and how quiet the machine was."""

import datetime as dt
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from harness import nginx
from rivals import Rival

_ROOT: Final = Path(__file__).parents[2]
_STEAL: Final = 7
"""The index of the stolen time in the first line of /proc/stat."""
_BUSY_LOAD: Final = 0.5
_BUSY_STEAL: Final = 0.02


def cpu_times() -> list[int]:
    """Returns the times of all cores since the start of the machine; see `steal`."""
    return [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]


def steal(before: Sequence[int], after: Sequence[int]) -> float:
    """Returns the share of the time that the hypervisor gave to other machines."""
    spent = [late - early for early, late in zip(before, after, strict=True)]
    return spent[_STEAL] / max(1, sum(spent))


def describe(rivals: Iterable[Rival], missing: Iterable[str]) -> dict[str, Any]:
    """Returns the machine and the versions at the start of a comparison."""
    server = subprocess.run([nginx.program(), "-v"], capture_output=True, text=True, check=True).stderr.strip()
    versions = {"server": server.removeprefix("nginx version: "), **{r.name: r.version() for r in rivals}}
    return machine() | {"versions": versions, "missing": list(missing)}


def machine() -> dict[str, Any]:
    """Returns the kind of machine at the start of a measurement, without its name, because it is published."""
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "virtual_machine": "hypervisor" in _cpuinfo("flags").split(),
        "kernel": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "python": platform.python_version(),
        "commit": _git("describe", "--always", "--dirty"),
        "load_before": os.getloadavg()[0],
    }


def machine_kind(environment: Mapping[str, Any]) -> str:
    """Returns the kind of machine as the name of a directory."""
    words = re.sub(r"[^a-z0-9]+", "-", environment["cpu"].lower()).strip("-")
    return f"{words}-{environment['cores']}-cores"


def caveats(environment: Mapping[str, Any], general: Iterable[str]) -> str:
    """Returns the caveats: how quiet the machine was, its kind, then the general ones."""
    virtual = " of a virtual machine" if environment["virtual_machine"] else ""
    found = []
    if environment["steal"] > _BUSY_STEAL:
        found.append(f"- **The hypervisor gave {environment['steal']:.0%} of the time to other machines.**")
    if environment["load_before"] > _BUSY_LOAD:
        found.append(f"- **Not a quiet machine: the load was {environment['load_before']:.1f} before the start.**")
    found.append(
        f"- One machine: {environment['cpu']}, {environment['cores']} cores{virtual}, {environment['kernel']}, Python "
        + environment["python"]
    )
    found += general
    found += [f"- Left out, because it was not installed: {name}." for name in environment["missing"]]
    return "\n".join(found)


def _cpuinfo(key: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _cpu() -> str:
    return _cpuinfo("model name") or platform.machine()


def _git(*arguments: str) -> str:
    if shutil.which("git") is None:
        return "unknown"
    asked = subprocess.run(["git", "-C", str(_ROOT), *arguments], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "unknown"
