"""Runs the installed command on a terminal, as a user at a keyboard would."""

import os
import pty
import subprocess
from pathlib import Path

from support.run import HEADGATE, LONGEST_S


def on_terminal(*arguments: str | Path, question: str = "", answer: str = "") -> tuple[int, str]:
    """Runs the command, types the answer when the question stands there; its exit code, and what it showed."""
    ours, theirs = pty.openpty()
    shown = ""
    try:
        with subprocess.Popen(
            [HEADGATE, *arguments],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            env=os.environ | {"TERM": "dumb"},
        ) as process:
            os.close(theirs)
            while chunk := _read(ours):
                shown += chunk
                if answer and shown.endswith(question):
                    os.write(ours, answer.encode())
                    answer = ""
            return process.wait(LONGEST_S), shown
    finally:
        os.close(ours)


def _read(terminal: int) -> str:
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # the other side is closed
        return ""
