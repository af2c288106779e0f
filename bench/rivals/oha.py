"""oha: Rust, hyper. It repeats one request, and keeps a record of each response until its end."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rivals import Claim, Load

OK: Final = "200"


@dataclass(frozen=True, slots=True)
class Oha:
    """oha in its `--no-tui` mode, which is the fast one."""

    program: Path
    name: str = "oha"
    exact: bool = True
    guess_per_s: int = 100_000

    def missing(self) -> str | None:
        """Returns that it is not installed, or `None`."""
        return None if self.program.is_file() else f"not at {self.program}; run: make bench-tools, or say --oha PATH"

    def version(self) -> str:
        """Returns `oha 1.2.3`."""
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def command(self, load: Load) -> list[str]:
        """Returns the command, which uses as many threads as it has cores."""
        flags = ["--no-tui", "--output-format", "json", "-n", str(load.requests), "-c", str(load.concurrency)]
        return [str(self.program), *flags, f"{load.url}/"]

    def claim(self, _load: Load, stdout: str) -> Claim:
        """Reads its report in JSON."""
        report = json.loads(stdout)
        statuses: dict[str, int] = report["statusCodeDistribution"]
        errors = report["errorDistribution"] | {status: n for status, n in statuses.items() if status != OK}
        return Claim(
            succeeded=statuses.get(OK, 0),
            elapsed_s=report["summary"]["total"],
            body_bytes=report["summary"]["totalData"],
            complaints=tuple(f"{count:,} times {error}" for error, count in errors.items()),
        )
