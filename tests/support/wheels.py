"""Installs the wheel of `make build` without a network."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from support.documents import ROOT

NOBODY: Final = 65534
WHEELS: Final = ROOT / "target/wheels"
"""Of `make build`; `make dist` would put them into dist."""


@contextmanager
def directory_for_any_user() -> Iterator[Path]:
    """Creates a temporary directory that any user can read."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)  # noqa: PTH101, S103 - for another user
        yield Path(directory)


def pack(folder: Path) -> None:
    """Makes wheels of all that headgate needs, from what is installed: tests download nothing."""
    for line in (ROOT / "requirements/runtime.txt").read_text().splitlines():
        if not line.startswith("#"):
            _pack(line.partition("==")[0], folder)


def _pack(name: str, folder: Path) -> None:
    installed = distribution(name)
    tag = re.search(r"^Tag: (.+)$", installed.read_text("WHEEL") or "", re.MULTILINE)
    assert tag is not None
    with zipfile.ZipFile(folder / f"{name.replace('-', '_')}-{installed.version}-{tag[1]}.whl", "w") as wheel:
        for file in installed.files or []:
            if ".." not in file.parts and file.suffix != ".pyc" and file.name not in {"INSTALLER", "REQUESTED"}:
                wheel.write(str(file.locate()), str(file))


def python_for(user: int | None) -> str | None:
    """Returns an interpreter that the user may run."""
    code = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
    for python in (f"{sys.base_prefix}/bin/python3", shutil.which("python3", path="/usr/local/bin:/usr/bin")):
        if python is not None:
            try:
                if not subprocess.run([python, "-c", code], check=False, user=user, cwd="/").returncode:
                    return python
            except PermissionError:
                pass
    return None
