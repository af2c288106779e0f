"""Ourselves: the installed command, as a user runs it, with or without results that are kept."""

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit

from harness import many_hosts, read_back
from rivals import Claim, Load

Format = Literal["none", "parquet"]
FORMATS: Final[tuple[Format, ...]] = ("none", "parquet")


@dataclass(frozen=True, slots=True)
class Headgate:
    """Keeps headers and bodies as Parquet, or counts and drops.

    Attributes:
        hosts: So many are asked, of those in `many_hosts`; none: the one of the load.
        order: In which order they are.
        flags: Of the requests.
    """

    program: Path
    format: Format
    label: str = "headgate"
    exact: bool = True
    guess_per_s: int = 80_000
    hosts: int = 0
    order: many_hosts.Order = "in turn"
    flags: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """With what it keeps."""
        return f"{self.label}, {self.format}"

    def missing(self) -> str | None:
        """Not there, or many times slower than what users get."""
        if not self.program.is_file():
            return f"not at {self.program}; run: make build, or say --headgate PATH"
        python = self.program.resolve().with_name("python")
        if not python.is_file():
            return f"{self.program} has no interpreter beside it; name the headgate of a virtual environment"
        code = "import headgate._headgate as engine; print(engine.DEBUG_BUILD)"
        asked = subprocess.run([python, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True, check=False)
        return None if asked.stdout.strip() == "False" else f"{self.program} is not a release build; run: make build"

    def version(self) -> str:
        """`headgate 1.2.3`."""
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def command(self, load: Load) -> list[str]:
        """It takes as many threads as it may use cores."""
        kept = ["--format", "none"] if self.format == "none" else ["-o", str(results(load))]
        flags = ["-c", str(load.concurrency), "--summary", str(_summary(load)), *kept]
        return [str(self.program), "fetch", self._source(load), *flags, *self.flags]

    def claim(self, load: Load, _stdout: str) -> Claim:
        """Its summary; and what it has written is read, because that is what its user gets."""
        summary = json.loads(_summary(load).read_text())
        answered = summary["statuses"].get("200", 0)
        complaints = [f"{count:,} times {kind}" for kind, count in summary["errors"].items()]
        if (summary["rows"], summary["answered"]) != (answered, answered):
            complaints.append(
                f"{summary['rows']:,} rows, {summary['answered']:,} answered, {answered:,} with status 200"
            )
        if self.format == "parquet":
            kept = read_back.totals(results(load))
            expected = read_back.Totals(answered, answered, answered, summary["bytes_received"])
            if kept != expected:
                complaints.append(f"the parts hold {kept}, not {expected}")
        return Claim(
            answered=answered,
            elapsed_s=summary["elapsed_s"],
            body_bytes=summary["bytes_received"],
            complaints=tuple(complaints),
            bound_by=summary["bound_by"]["text"],
        )

    def _source(self, load: Load) -> str:
        """A pattern, or a file with a line for each row."""
        if not self.hosts:
            return f"{load.url}/[1-{load.requests}]"
        urls = load.scratch / "urls.txt"
        many_hosts.write(urls, self.hosts, urlsplit(load.url).port or 0, load.requests, self.order)
        return str(urls)


def results(load: Load) -> Path:
    """Where a run of `load` keeps its Parquet."""
    return load.scratch / "results"


def _summary(load: Load) -> Path:
    return load.scratch / "summary.json"
