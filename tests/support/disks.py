"""File systems that are small or read-only, and directories that no process can change."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def remount(self, options: str) -> None:
        """Mounts it anew with other options, such as `size=64m` or `ro`."""
        _run("mount", "-o", f"remount,{options}", self.path)


@contextmanager
def small_disk(path: Path, size: str) -> Iterator[SmallDisk]:
    """Mounts a new file system at `path`; skips the test if that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    path.mkdir()
    try:
        _run("mount", "-t", "tmpfs", "-o", f"size={size}", "headgate-test", path)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small disk can't be mounted here: {error}")
    try:
        yield SmallDisk(path)
    finally:
        _run("umount", path)


@contextmanager
def frozen(directory: Path) -> Iterator[None]:
    """Makes a directory immutable, also for root; skips the test if that is not possible."""
    try:
        _run("chattr", "+i", directory)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a directory can't be frozen here: {error}")
    try:
        yield
    finally:
        _run("chattr", "-i", directory)


def limited(command: list[str | Path], *, file_bytes: int) -> list[str | Path]:
    """Returns a command that can write no file larger than `file_bytes`, a multiple of 512."""
    return ["/bin/sh", "-c", f'ulimit -f {file_bytes // 512}; exec "$0" "$@"', *command]


def _run(*command: str | Path) -> None:
    program = shutil.which(command[0], path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if program is None:
        raise FileNotFoundError(f"there is no {command[0]}")
    subprocess.run([program, *command[1:]], check=True, capture_output=True)
