"""The image of deploy/Dockerfile: its steps, replayed in a directory and without a daemon."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.documents import ROOT
from support.wheels import NOBODY, WHEELS, directory_for_any_user, pack, python_for

DOCKERFILE = (ROOT / "deploy/Dockerfile").read_text()


def instructions(stage: str) -> list[tuple[str, str]]:
    return re.findall(r"^([A-Z]+) (.+)$", stage, re.MULTILINE)


BUILD, IMAGE = map(instructions, re.split(r"^FROM .*$", DOCKERFILE.replace("\\\n", ""), flags=re.MULTILINE)[1:])


def argument_of(instruction: str) -> str:
    (argument,) = (argument for name, argument in IMAGE if name == instruction)
    return argument


def test_it_runs_as_a_user_that_it_creates() -> None:
    assert int(argument_of("USER")) > 0
    assert f"useradd --uid {argument_of('USER')} " in argument_of("RUN")


def test_what_it_copies_is_all_of_its_context() -> None:
    ignored = (ROOT / "deploy/Dockerfile.dockerignore").read_text().splitlines()
    copied = {path for name, argument in BUILD if name == "COPY" for path in argument.split()[:-1]}
    assert copied == {line.removeprefix("!") for line in ignored if line.startswith("!")}
    assert "*" in ignored


@pytest.fixture
def root() -> Iterator[Path]:
    """Returns the root of the image: a directory that any user can read."""
    with directory_for_any_user() as directory:
        yield directory


def test_the_command_that_it_installs_makes_requests_as_a_user_without_privileges(root: Path, server: str) -> None:
    user = NOBODY if os.getuid() == 0 else None
    python = python_for(user)
    if python is None:
        user, python = None, sys.executable
    (root / "bin").mkdir()
    (root / "bin/python").symlink_to(python)
    (root / "wheelhouse").mkdir()
    pack(root / "wheelhouse")
    for name, argument in BUILD:
        if name == "COPY":
            copy(argument, root)
        else:
            assert "RUN" == name
            environment = {
                "PATH": f"{root}/bin:/usr/bin:/bin",
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": f"{root}/wheelhouse",
            }
            subprocess.run(["/bin/sh", "-ec", within(root, argument)], check=True, env=environment)
    data = root / argument_of("WORKDIR").lstrip("/")
    data.mkdir()
    if user is not None:
        os.chown(data, user, user)
    path = within(root, argument_of("ENV").removeprefix("PATH=")).replace("$PATH", "/usr/bin:/bin")
    subprocess.run(
        [*json.loads(argument_of("ENTRYPOINT")), "fetch", f"{server}/hello", "-o", "results", "--summary", "summary"],
        check=True,
        cwd=data,
        env={"PATH": path, "HOME": "/nonexistent"},
        user=user,
        group=user,
        extra_groups=None if user is None else [],
    )
    assert 1 == json.loads((data / "summary").read_text())["succeeded"]
    assert (os.getuid() if user is None else user) == (data / "results").stat().st_uid


def within(root: Path, text: str) -> str:
    """Returns text of the Dockerfile with its absolute paths below the root."""
    return re.sub(r"(?<![\w.*])/(?=build|opt|data)", f"{root}/", text)


def copy(argument: str, root: Path) -> None:
    *sources, target = shlex.split(argument)
    folder = root / target.strip("/")
    folder.mkdir(exist_ok=True)
    for source in sources:
        parent, pattern = (WHEELS, Path(source).name) if source.startswith("dist/") else (ROOT, source)
        found = list(parent.glob(pattern))
        assert found, f"{source} matches nothing in {parent}"
        for path in found:
            shutil.copy(path, folder)
