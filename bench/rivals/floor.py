"""The floor: `floor.rs`, a loop on epoll that sends one request again and again and counts the answers."""

import json
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rivals import Claim, Load


@dataclass(frozen=True, slots=True)
class Floor:
    """One thread."""

    program: Path
    name: str = "floor"
    exact: bool = True
    guess_per_s: int = 120_000

    def missing(self) -> str | None:
        """Not built."""
        how = "cargo build --release -p headgate-testserver --example floor"
        return None if self.program.is_file() else f"not at {self.program}; run: {how}"

    def version(self) -> str:
        """It has none of its own."""
        return "of this commit"

    def command(self, load: Load) -> list[str]:
        """It asks for the server's first page."""
        return [str(self.program), urlsplit(load.url).netloc, str(load.requests), str(load.concurrency)]

    def claim(self, _load: Load, stdout: str) -> Claim:
        """The line that it prints; it ends with a mistake if an answer was not like the first."""
        report = json.loads(stdout)
        return Claim(answered=report["requests"], elapsed_s=report["elapsed_s"], body_bytes=report["body_bytes"])
