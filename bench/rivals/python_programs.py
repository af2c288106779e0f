"""Python clients, each in a module of `programs`."""

import json
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from rivals import Claim, Load

_PROGRAM: Final = Path(__file__).parents[1] / "client_worker.py"


@dataclass(frozen=True, slots=True)
class PythonProgram:
    """A client that this interpreter runs.

    Attributes:
        module: The module of `programs`.
        client: The name of the client there.
        packages: The packages that it needs.
    """

    name: str
    module: str
    client: str
    packages: tuple[str, ...]
    exact: bool = True
    guess_per_s: int = 6_000

    def missing(self) -> str | None:
        """Returns which of its packages is missing, or `None`."""
        try:
            self.version()
        except PackageNotFoundError as error:
            return f"no package {error.name}; run: pip install -r requirements/bench.txt"
        return None

    def version(self) -> str:
        """Returns the versions of its packages."""
        return ", ".join(f"{package} {version(package)}" for package in self.packages)

    def command(self, load: Load) -> list[str]:
        """Returns the command that runs the client."""
        numbers = [load.url, str(load.requests), str(load.concurrency)]
        return [sys.executable, str(_PROGRAM), self.module, self.client, *numbers]

    def claim(self, _load: Load, stdout: str) -> Claim:
        """Reads the line of JSON of the program."""
        report = json.loads(stdout)
        statuses: dict[str, int] = report["statuses"]
        return Claim(
            succeeded=statuses.pop("200", 0),
            elapsed_s=report["elapsed_s"],
            body_bytes=report["body_bytes"],
            complaints=tuple(f"{count:,} times status {status}" for status, count in statuses.items()),
        )


_LOOP: Final = "loop"
AIOHTTP: Final = (
    PythonProgram("aiohttp", _LOOP, "aiohttp", ("aiohttp",)),
    PythonProgram("aiohttp, uvloop", _LOOP, "aiohttp+uvloop", ("aiohttp", "uvloop")),
)
FETCH_MANY: Final = "Client.fetch_many"
BATCHES: Final = "Client.fetch_many, to_arrow_batches()"
CLIENTS: Final = (
    PythonProgram(FETCH_MANY, "many", "outcomes", ("headgate",), guess_per_s=50_000),
    PythonProgram(BATCHES, "batches", "batches", ("headgate", "pyarrow"), guess_per_s=50_000),
    PythonProgram("AsyncClient.get", _LOOP, "headgate", ("headgate",)),
    PythonProgram("AsyncClient.get, uvloop", _LOOP, "headgate+uvloop", ("headgate", "uvloop")),
    *AIOHTTP,
    PythonProgram("pyreqwest", _LOOP, "pyreqwest", ("pyreqwest",)),
    PythonProgram("pyreqwest, uvloop", _LOOP, "pyreqwest+uvloop", ("pyreqwest", "uvloop")),
    PythonProgram("pycurl, multi", "multi", "pycurl", ("pycurl",)),
)
"""The clients of the scenario `client`."""
