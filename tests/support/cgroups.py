"""Cgroups with a memory limit, as containers have one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_TREE = Path("/sys/fs/cgroup")


class SmallCgroup:
    """A cgroup below the one of this process."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def command(self, *argv: str | Path) -> list[str | Path]:
        """Returns the command line that runs a program in the cgroup."""
        return ["/bin/sh", "-c", f'echo $$ > {self._path}/cgroup.procs && exec "$@"', "sh", *argv]


@contextmanager
def small_cgroup(max_bytes: int) -> Iterator[SmallCgroup]:
    """Makes a cgroup of version 1 or 2; skips the test if that is not allowed."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, own = line.split(":", 2)
        if controllers == "memory" or not controllers:
            tree, limit = (_TREE / "memory", "memory.limit_in_bytes") if controllers else (_TREE, "memory.max")
            path = tree / own.strip("/") / f"headgate-test-{os.getpid()}"
            try:
                path.mkdir()
            except OSError:
                continue
            try:
                if (path / limit).exists():
                    (path / limit).write_text(str(max_bytes))
                    yield SmallCgroup(path)
                    return
            finally:
                path.rmdir()
    pytest.skip("only root may make a cgroup with a limit of memory, where the system has them")
