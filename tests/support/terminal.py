"""Runs the command on a terminal, as a user at a keyboard would."""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from headgate import cli
from support.run import HEADGATE, LONGEST_S


def on_terminal(*arguments: str | Path, question: str = "", answer: str = "") -> tuple[int, str]:
    """Runs the command, and types the answer when it shows the question; returns the exit code and the output."""
    return _run([HEADGATE, *arguments], question, answer)


def shell_on_terminal(line: str, *, question: str = "", answer: str = "") -> tuple[int, str]:
    """Does the same with a line of a shell, in a session whose terminal can be opened as `/dev/tty`."""
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


def printed_on_terminal(*arguments: str, columns: int) -> str:
    """Runs a command line in this process, and returns what it prints on a terminal of this width: a page at most."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    printed = ""
    try:
        with os.fdopen(theirs, "w") as stream, redirect_stdout(stream):
            assert 0 == cli.run(arguments)
        while chunk := read(ours):
            printed += chunk
    finally:
        os.close(ours)
    return printed.replace("\r\n", "\n")


class Terminal(io.StringIO):
    """A stream that says that it is a terminal, and keeps what is written to it."""

    def isatty(self) -> bool:
        return True

    @property
    def has_block(self) -> bool:
        """Returns whether a live block was begun and not removed: it hides the cursor while it is shown."""
        hidden, shown = (self.getvalue().count(f"\x1b[?25{end}") for end in "lh")
        return hidden > shown

    @property
    def had_block(self) -> bool:
        """Returns whether a live block was begun and removed."""
        return "\x1b[?25l" in self.getvalue() and not self.has_block


def replace_standard_error(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Puts a terminal in the place of standard error; in a fixture, pytest would put its own there again."""
    made = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stderr", made)
    return made


def read(terminal: int) -> str:
    """Returns what is shown next, or an empty text when the program has closed the terminal."""
    try:
        return os.read(terminal, 4096).decode()
    except OSError:  # the program has closed the terminal
        return ""
