"""`headgate completion`: real shells complete what is typed, on a terminal."""

import os
import pty
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.run import HEADGATE, headgate

SET_UP = {
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source ./script"),
    "zsh": (["zsh", "-f", "-i"], "autoload -Uz compinit; compinit -u -D; source ./script"),
}
BEGINNING, END, TAB = "\x01", "\x05", "\t"


class Shell:
    """A shell on a terminal, and a user who types."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def type(self, keys: str, until: str) -> str:
        """Types keys; returns the output until it matches a pattern."""
        os.write(self._terminal, keys.encode())
        shown = ""
        while not re.search(until, shown):
            shown += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(self._terminal, 4096).decode(errors="replace"))
        return shown


@contextmanager
def shell(name: str, directory: Path) -> Iterator[Shell]:
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    (directory / "script").write_text(headgate("completion", name, check=0).stdout)
    (directory / "urls.txt").touch()
    command, set_up = SET_UP[name]
    ours, theirs = pty.openpty()
    path = f"{HEADGATE.parent}:{os.environ['PATH']}"
    environment = os.environ | {"TERM": "xterm", "PATH": path, "HOME": str(directory), "COLUMNS": "200"}
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=directory, env=environment, start_new_session=True
    ) as process:
        os.close(theirs)
        try:
            shell = Shell(ours)
            shell.type(f"{set_up}; echo is''-ready\r", "is-ready")
            yield shell
        finally:
            process.kill()
            os.close(ours)


@pytest.mark.parametrize("name", ["bash", "zsh"])
@pytest.mark.parametrize(
    ("expected", "typed"),
    [
        ("headgate fetch", "headgate fet"),
        ("headgate fetch --format", "headgate fetch --forma"),
        ("headgate fetch --format ndjson", "headgate fetch --format nd"),
        ("headgate fetch --format=ndjson", "headgate fetch --format=nd"),
        ("headgate fetch urls.txt", "headgate fetch ur"),
        ("headgate fetch -o x --insecure", "headgate fetch -o x --ins"),
        ("headgate fetch -o x --no-insecure", "headgate fetch -o x --no-ins"),
        ("headgate help status", "headgate help stat"),
        ("headgate help retries", "headgate help retrie"),
        ("headgate completion fish", "headgate completion fi"),
    ],
)
def test_a_typed_word_is_completed(expected: str, typed: str, name: str, tmp_path: Path) -> None:
    with shell(name, tmp_path) as terminal:
        # The completed command line prints itself.
        shown = terminal.type(f'{typed}{TAB}{BEGINNING}printf "<%s>" "{END}"\r', r"<headgate [^>%]*>")
    found = re.search(r"<(headgate [^>%]*)>", shown)
    assert found is not None
    assert expected == found[1].rstrip()


@pytest.mark.parametrize(
    ("expected", "typed"),
    [
        (["fetch"], "headgate fet"),
        (["--format"], "headgate fetch --forma"),
        (["ndjson", "none", "parquet"], "headgate fetch --format "),
        (["--format=ndjson"], "headgate fetch --format=nd"),
        (["urls.txt"], "headgate fetch ur"),
        (["--insecure"], "headgate fetch -o x --ins"),
        (["--no-insecure"], "headgate fetch -o x --no-ins"),
        (["status"], "headgate help stat"),
        (["retries"], "headgate help retrie"),
        (["fish"], "headgate completion fi"),
    ],
)
def test_fish_completes_what_is_typed(expected: list[str], typed: str, tmp_path: Path) -> None:
    fish = shutil.which("fish")
    if fish is None:
        pytest.skip("fish is not installed")
    (tmp_path / "script").write_text(headgate("completion", "fish", check=0).stdout)
    (tmp_path / "urls.txt").touch()
    command = [fish, "--no-config", "-c", f"source script; complete -C '{typed}'"]
    done = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True)
    assert expected == [line.partition("\t")[0] for line in done.stdout.splitlines()]
