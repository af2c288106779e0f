"""The wheel, installed into an environment of each Python that is found, and used outside of the checkout."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.documents import ROOT
from support.wheels import NOBODY, WHEELS, directory_for_any_user, pack, python_for

VERSIONS: Final = ("3.11", "3.12", "3.13")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A directory that any user can read."""
    with directory_for_any_user() as directory:
        yield directory


def install(python: str, folder: Path) -> Path:
    """Installs the wheel with pip into a new environment, and returns the directory of its commands."""
    pack(folder)
    subprocess.run([python, "-m", "venv", folder / "venv"], check=True)
    wheels = WHEELS.glob("*.whl")
    pip = folder / "venv/bin/pip"
    subprocess.run([pip, "install", "--quiet", "--no-index", "--find-links", folder, *wheels], check=True)
    shutil.copy(ROOT / "scripts/try-installed", folder)
    return folder / "venv/bin"


def try_installed(commands: Path, folder: Path, user: int | None = None) -> str:
    done = subprocess.run(
        [folder / "try-installed", commands],
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": "/usr/bin:/bin"},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        check=False,
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_it_works_with_each_python_and_no_warning(version: str, folder: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"needs Python {version}")
    assert f"works with Python {version}." in try_installed(install(python, folder), folder)


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become another user")
def test_it_works_for_a_user_without_privileges_whose_home_cannot_be_written_to(folder: Path) -> None:
    python = python_for(NOBODY)
    if python is None:
        pytest.skip("needs a Python that another user may run")
    assert "works with Python" in try_installed(install(python, folder), folder, NOBODY)


def interpreter(version: str) -> str | None:
    """Returns a Python of this version that can make environments."""
    code = f"import ensurepip, sys, venv; sys.exit('%d.%d' % sys.version_info[:2] != '{version}')"
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    found = (shutil.which(f"python{version}"), *pyenv.glob(f"versions/{version}.*/bin/python{version}"))
    for python in filter(None, (sys.executable, *map(str, found))):
        if not subprocess.run([python, "-c", code], check=False, capture_output=True).returncode:
            return python
    return None
