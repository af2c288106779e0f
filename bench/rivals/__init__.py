"""The clients that are compared: one file for each, all of the shape of `Rival`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True, slots=True)
class Load:
    """What a client is asked to do.

    Attributes:
        url: Of the server, without a slash at the end.
        requests: How many to make.
        seconds: How long to go on, for a client that cannot count.
        concurrency: How many requests in flight, each on its own connection.
        scratch: An empty directory for the client.
    """

    url: str
    requests: int
    seconds: float
    concurrency: int
    scratch: Path


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """What a client says it has done.

    Attributes:
        answered: Responses with status 200.
        elapsed_s: By its own clock: without its start and its end.
        body_bytes: Sum of the bodies; `None` from a client that doesn't say.
        complaints: What went wrong, in its own words.
        bound_by: What held it back; empty from a client that doesn't say.
    """

    answered: int
    elapsed_s: float
    body_bytes: int | None = None
    complaints: tuple[str, ...] = ()
    bound_by: str = ""


class Rival(Protocol):
    """A client.

    Attributes:
        name: Its row in the tables.
        exact: It makes `Load.requests` requests, not one less or more; else it goes on for `Load.seconds`.
        guess_per_s: Requests a second to expect of it before it was measured.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above

    @property
    def exact(self) -> bool: ...  # noqa: D102

    @property
    def guess_per_s(self) -> int: ...  # noqa: D102

    def missing(self) -> str | None:
        """Why it cannot run here and how to get it; `None`: it can."""

    def version(self) -> str:
        """As it says itself."""

    def command(self, load: Load) -> list[str]:
        """The command that does it; it ends by itself, with exit code 0."""

    def claim(self, load: Load, stdout: str) -> Claim:
        """What the ended command says."""
