"""Runs the installed command on a terminal, as a user at a keyboard would."""

import os
import pty
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.run import HEADGATE, LONGEST_S


def on_terminal(*arguments: str | Path, question: str = "", answer: str = "") -> tuple[int, str]:
    """Runs the command, types the answer when the question stands there; its exit code, and what it showed."""
    return _run([HEADGATE, *arguments], question, answer)


def shell_on_terminal(line: str, *, question: str = "", answer: str = "") -> tuple[int, str]:
    """The same of a line that a shell runs, in a session whose terminal can be opened as `/dev/tty`."""
    return _run(["setsid", "--ctty", "sh", "-c", line], question, answer)


def _run(command: Sequence[str | Path], question: str, answer: str) -> tuple[int, str]:
    ours, theirs = pty.openpty()
    shown = ""
    try:
        with subprocess.Popen(
            command,
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=os.environ | {"TERM": "dumb"},
        ) as process:
            os.close(theirs)
            while chunk := read(ours):
                shown += chunk
                if answer and shown.endswith(question):
                    os.write(ours, answer.encode())
                    answer = ""
            return process.wait(LONGEST_S), shown
    finally:
        os.close(ours)


def read(terminal: int) -> str:
    """What is shown next; nothing when the other side is closed."""
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # the other side is closed
        return ""
