"""The clients that are compared: one file for each `Rival`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """The load of a client.

    Attributes:
        url: The URL of the server, without a slash at the end.
        requests: The number of requests.
        seconds: The time, for a client that can't count requests.
        concurrency: Requests in flight, each on a separate connection.
        scratch: An empty directory for the client.
    """

    url: str
    requests: int
    seconds: float
    concurrency: int
    scratch: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The figures that a client reports.

    Attributes:
        succeeded: Responses with status 200.
        elapsed_s: The time by its own clock, without its start and its end.
        body_bytes: The size of all bodies; `None` if the client doesn't report it.
        complaints: The errors that it reports.
        bottleneck: The bottleneck; empty if the client doesn't report it.
    """

    succeeded: int
    elapsed_s: float
    body_bytes: int | None = None
    complaints: tuple[str, ...] = ()
    bottleneck: str = ""


class Rival(Protocol):
    """A client that is compared.

    Attributes:
        name: The name of its row in tables.
        exact: Whether it makes exactly `Load.requests` requests; otherwise it runs for `Load.seconds`.
        guess_per_s: The expected requests a second before the first measurement.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above

    @property
    def exact(self) -> bool: ...  # noqa: D102

    @property
    def guess_per_s(self) -> int: ...  # noqa: D102

    def missing(self) -> str | None:
        """Returns why it can't run here and how to install it, or `None` if it can."""

    def version(self) -> str:
        """Returns its version."""

    def command(self, load: Load) -> list[str]:
        """Returns the command for a load, which ends by itself with exit code 0."""

    def claim(self, load: Load, stdout: str) -> Claim:
        """Returns the figures that the command reported."""
