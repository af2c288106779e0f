"""headgate: the installed command, as a user runs it, with or without results."""

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
    """Writes headers and bodies as Parquet, or only counts.

    Attributes:
        hosts: The number of hosts of `many_hosts`; 0: the host of the load.
        order: The order of the hosts.
        flags: Further flags.
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
        """The label and the format."""
        return f"{self.label}, {self.format}"

    def missing(self) -> str | None:
        """Returns that it is not installed or a debug build, or `None`."""
        if not self.program.is_file():
            return f"not at {self.program}; run: make build, or say --headgate PATH"
        python = self.program.resolve().with_name("python")
        if not python.is_file():
            return f"{self.program} has no interpreter beside it; name the headgate of a virtual environment"
        code = "import headgate._headgate as engine; print(engine.DEBUG_BUILD)"
        asked = subprocess.run([python, "-W", "ignore", "-c", code], stdout=subprocess.PIPE, text=True, check=False)
        return None if asked.stdout.strip() == "False" else f"{self.program} is not a release build; run: make build"

    def version(self) -> str:
        """Returns `headgate 1.2.3`."""
        return subprocess.run([self.program, "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def command(self, load: Load) -> list[str]:
        """Returns the command, which uses as many threads as it has cores."""
        kept = ["--format", "none"] if self.format == "none" else ["-o", str(results(load))]
        flags = ["-c", str(load.concurrency), "--summary", str(_summary(load)), *kept]
        return [str(self.program), "fetch", self._source(load), *flags, *self.flags]

    def claim(self, load: Load, _stdout: str) -> Claim:
        """Reads its summary, and checks the results that it has written."""
        summary = json.loads(_summary(load).read_text())
        succeeded = summary["statuses"].get("200", 0)
        complaints = [f"{count:,} times {kind}" for kind, count in summary["errors"].items()]
        if (summary["rows"], summary["succeeded"]) != (succeeded, succeeded):
            complaints.append(
                f"{summary['rows']:,} rows, {summary['succeeded']:,} succeeded, {succeeded:,} with status 200"
            )
        if self.format == "parquet":
            kept = read_back.totals(results(load))
            expected = read_back.Totals(succeeded, succeeded, succeeded, summary["received_bytes"])
            if kept != expected:
                complaints.append(f"the parts hold {kept}, not {expected}")
        return Claim(
            succeeded=succeeded,
            elapsed_s=summary["elapsed_s"],
            body_bytes=summary["received_bytes"],
            complaints=tuple(complaints),
            bottleneck=summary["bottleneck"]["text"],
        )

    def _source(self, load: Load) -> str:
        """Returns a pattern, or a file with a line for each row."""
        if not self.hosts:
            return f"{load.url}/[1-{load.requests}]"
        urls = load.scratch / "urls.txt"
        many_hosts.write(urls, self.hosts, urlsplit(load.url).port or 0, load.requests, self.order)
        return str(urls)


def results(load: Load) -> Path:
    """Returns the directory of the results of a load."""
    return load.scratch / "results"


def _summary(load: Load) -> Path:
    return load.scratch / "summary.json"
