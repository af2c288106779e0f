"""The floor: `floor.rs`, an epoll loop that repeats one request and counts the responses."""

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rivals import Claim, Load


@dataclass(frozen=True, slots=True)
class Floor:
    """The floor, which runs in one thread."""

    program: Path
    name: str = "floor"
    exact: bool = True
    guess_per_s: int = 120_000

    def missing(self) -> str | None:
        """Returns that it is not built, or `None`."""
        how = "cargo build --release -p headgate-testserver --example floor"
        return None if self.program.is_file() else f"not at {self.program}; run: {how}"

    def version(self) -> str:
        """Returns a text, because it has no version."""
        return "of this commit"

    def command(self, load: Load) -> list[str]:
        """Returns the command, which requests the path `/`."""
        return [str(self.program), urlsplit(load.url).netloc, str(load.requests), str(load.concurrency)]

    def claim(self, _load: Load, stdout: str) -> Claim:
        """Reads its line of JSON; the command fails if a response differed from the first."""
        report = json.loads(stdout)
        return Claim(succeeded=report["requests"], elapsed_s=report["elapsed_s"], body_bytes=report["body_bytes"])
