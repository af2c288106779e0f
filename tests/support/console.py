"""Types what the documents type, one step after another in one place."""

import os
import re
import signal
import subprocess
from pathlib import Path

from support.documents import Command, Example, Step
from support.run import HEADGATE, LONGEST_S, printed_by, stats, wait_for

ADDRESS = "http://127.0.0.1:8080"
"""Where the server of the documents is; that of the tests takes its place."""

INTERRUPT = "^C\n"
ENOUGH_REQUESTS = 1000
"""After so many a job is interrupted that the documents interrupt."""


class Console:
    """One place with a server, in which steps are taken."""

    longest_s = LONGEST_S
    """Of one command."""

    def __init__(self, place: Path, server: str) -> None:
        self._place = place
        self._server = server

    def take(self, step: Step) -> tuple[object, object]:
        """Does what the reader would do; what is shown, and what was printed, which should be equal."""
        if isinstance(step, Example):
            return step.output, printed_by(self._here(step.code), self._place)
        if step.typed.startswith("cat "):
            (self._place / step.typed.removeprefix("cat ")).write_text(self._here(step.output))
            return step.output, step.output
        shown = step.output.removeprefix(INTERRUPT)
        return shape(shown), shape(self._printed(step, interrupt=shown != step.output))

    def _here(self, words: str) -> str:
        return words.replace(ADDRESS, self._server)

    def _printed(self, step: Command, *, interrupt: bool) -> str:
        path = f"{HEADGATE.parent}{os.pathsep}{os.environ['PATH']}"
        # As wide as what is shown, so that nothing is cut; of proxies there would be a note.
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        environment |= {"PATH": path, "COLUMNS": "150"}
        before = stats(self._server)["requests"]
        with subprocess.Popen(
            ["bash", "-c", f"exec {self._here(step.typed)}" if interrupt else self._here(step.typed)],  # noqa: S607 - any bash
            cwd=self._place,
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
    """The lines without what differs from run to run: figures and units, padding, order, and what holds it back."""
    lines = []
    # A slow run tells every some seconds how far it is.
    for line in re.sub(r"^[\d.]+ s: .*\n", "", printed, flags=re.MULTILINE).splitlines():
        plain = re.sub(r"\d[\d,.:-]*( (k|ms|µs|s|B|KiB|MiB|GiB|UTC)\b)?", "#", line)
        plain = re.sub(r"^(bound by|  CPU) .*", r"\1", plain)
        lines.append(" ".join(re.sub(r"[━─]+", "", plain).split()))
    return sorted(filter(None, lines))
