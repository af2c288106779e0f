"""wrk: C, one epoll loop. It repeats one request for a time, and keeps nothing of the responses."""

import json
import shutil
import subprocess
from pathlib import Path

from rivals import Claim, Load

_REPORT = Path(__file__).with_suffix(".lua")


class Wrk:
    """wrk with one thread."""

    name = "wrk"
    exact = False
    guess_per_s = 100_000
    headers: tuple[str, ...] = ()

    def missing(self) -> str | None:
        """Returns that it is not on the PATH, or `None`."""
        return None if shutil.which("wrk") else "not found; run: apt install wrk"

    def version(self) -> str:
        """Returns the first words of its banner; it has no flag for its version, and exits with 1."""
        banner = subprocess.run(["wrk", "-v"], capture_output=True, text=True, check=False).stdout
        return " ".join(banner.split()[:2])

    def command(self, load: Load) -> list[str]:
        """Returns the command, with one thread for one core."""
        duration = f"{max(1, round(load.seconds))}s"
        flags = ["-t", "1", "-c", str(load.concurrency), "-d", duration, "--timeout", "30s", "-s", str(_REPORT)]
        headers = [part for header in self.headers for part in ("-H", header)]
        return ["wrk", *flags, *headers, f"{load.url}/"]

    def claim(self, _load: Load, stdout: str) -> Claim:
        """Reads the last line, which its script prints."""
        report = json.loads(stdout.splitlines()[-1])
        return Claim(
            succeeded=report["requests"] - report["errors"]["status"],
            elapsed_s=report["elapsed_us"] / 1e6,
            complaints=tuple(f"{count:,} errors of {kind}" for kind, count in report["errors"].items() if count),
        )


class ConnectingWrk(Wrk):
    """wrk with a separate connection for each request, which the server closes."""

    name = "wrk, Connection: close"
    guess_per_s = 15_000
    headers = ("Connection: close",)
