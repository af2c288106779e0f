"""oha: Rust, hyper. It repeats one request, and holds a record of each answer until its end."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rivals import Claim, Load

OK: Final = "200"


@dataclass(frozen=True, slots=True)
class Oha:
    """Its `--no-tui` mode, which is the fast one."""

    program: Path
    name: str = "oha"
    exact: bool = True
    guess_per_s: int = 100_000

    def missing(self) -> str | None:
        """Not where it was said to be."""
        return None if self.program.is_file() else f"not at {self.program}; run: make bench-tools, or say --oha PATH"

    def version(self) -> str:
        """`oha 1.2.3`."""
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def command(self, load: Load) -> list[str]:
        """It takes as many threads as it may use cores."""
        flags = ["--no-tui", "--output-format", "json", "-n", str(load.requests), "-c", str(load.concurrency)]
        return [str(self.program), *flags, f"{load.url}/"]

    def claim(self, _load: Load, stdout: str) -> Claim:
        """Its report in JSON."""
        report = json.loads(stdout)
        statuses: dict[str, int] = report["statusCodeDistribution"]
        troubles = report["errorDistribution"] | {status: n for status, n in statuses.items() if status != OK}
        return Claim(
            answered=statuses.get(OK, 0),
            elapsed_s=report["summary"]["total"],
            body_bytes=report["summary"]["totalData"],
            complaints=tuple(f"{count:,} times {trouble}" for trouble, count in troubles.items()),
        )
