"""aiohttp: Python, with asyncio's own loop or with uvloop. `aiohttp_client.py` is the program."""

import json
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from rivals import Claim, Load

_PROGRAM = Path(__file__).with_name("aiohttp_client.py")


@dataclass(frozen=True, slots=True)
class AiohttpWorkers:
    """Run by the interpreter that runs us."""

    uvloop: bool
    exact: bool = True
    guess_per_s: int = 6_000

    @property
    def name(self) -> str:
        """With its loop where that is not asyncio's."""
        return "aiohttp, uvloop" if self.uvloop else "aiohttp"

    def missing(self) -> str | None:
        """One of its two packages."""
        try:
            self.version()
        except PackageNotFoundError as error:
            return f"no package {error.name}; run: pip install -r requirements/bench.txt"
        return None

    def version(self) -> str:
        """Of what takes part."""
        packages = ("aiohttp", "uvloop") if self.uvloop else ("aiohttp",)
        return ", ".join(f"{package} {version(package)}" for package in packages)

    def command(self, load: Load) -> list[str]:
        """The program beside us."""
        flags = ["--requests", str(load.requests), "--concurrency", str(load.concurrency)]
        return [sys.executable, str(_PROGRAM), load.url, *flags, *(["--uvloop"] if self.uvloop else [])]

    def claim(self, _load: Load, stdout: str) -> Claim:
        """The line that the program prints."""
        report = json.loads(stdout)
        statuses: dict[str, int] = report["statuses"]
        return Claim(
            answered=statuses.pop("200", 0),
            elapsed_s=report["elapsed_s"],
            body_bytes=report["body_bytes"],
            complaints=tuple(f"{count:,} times status {status}" for status, count in statuses.items()),
        )
