"""Runs the commands and programs of a document, one after another in one directory."""

import os
import re
import signal
import subprocess
from pathlib import Path

from support.documents import Command, Example, Step
from support.run import HEADGATE, LONGEST_S, printed_by, stats, wait_for

ADDRESS = "http://127.0.0.1:8080"
"""The address of the server in the documents; tests replace it by that of their own server."""

INTERRUPT = "^C\n"
ENOUGH_REQUESTS = 1000
"""A job that a document interrupts is interrupted after this many requests."""


class Console:
    """A directory and a server, with which the steps of a document are run."""

    longest_s = LONGEST_S
    """The longest that one command may run."""

    def __init__(self, directory: Path, server: str) -> None:
        self._directory = directory
        self._server = server

    def take(self, step: Step) -> tuple[object, object]:
        """Runs a step; returns what the document shows and what was printed, which should be equal."""
        if isinstance(step, Example):
            return step.output, printed_by(self._here(step.code), self._directory)
        if step.typed.startswith("cat "):
            (self._directory / step.typed.removeprefix("cat ")).write_text(self._here(step.output))
            return step.output, step.output
        shown = step.output.removeprefix(INTERRUPT)
        return shape(shown), shape(self._printed(step, interrupt=shown != step.output))

    def _here(self, words: str) -> str:
        return words.replace(ADDRESS, self._server)

    def _printed(self, step: Command, *, interrupt: bool) -> str:
        path = f"{HEADGATE.parent}{os.pathsep}{os.environ['PATH']}"
        # The width is that of the documents, so that nothing is cut; a job would note proxies that it ignores.
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment |= {"PATH": path, "COLUMNS": "150"}
        before = stats(self._server)["requests"]
        with subprocess.Popen(
            ["bash", "-c", f"exec {self._here(step.typed)}" if interrupt else self._here(step.typed)],  # noqa: S607 - any bash
            cwd=self._directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                if interrupt:
                    wait_for(lambda: bool(stats(self._server)["requests"] >= before + ENOUGH_REQUESTS))
                    process.send_signal(signal.SIGINT)
                printed, _ = process.communicate(timeout=self.longest_s)
            finally:
                process.kill()
        assert "Traceback" not in printed, printed
        return printed.replace(self._server, ADDRESS)


def shape(printed: str) -> list[str]:
    """Returns the lines without what differs between runs: figures and units, padding, order, and the bottleneck."""
    lines = []
    # A slow run prints its progress every few seconds.
    for line in re.sub(r"^[\d.]+ s: .*\n", "", printed, flags=re.MULTILINE).splitlines():
        plain = re.sub(r"\d[\d,.:-]*( (k|ms|µs|s|B|KiB|MiB|GiB|TiB|UTC)\b)?", "#", line)
        plain = re.sub(r"^(bottleneck:|  CPU) .*", r"\1", plain)
        lines.append(" ".join(re.sub(r"[━─]+", "", plain).split()))
    return sorted(filter(None, lines))
