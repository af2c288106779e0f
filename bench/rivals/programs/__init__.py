"""Python clients, each with a `run` that makes requests and counts the responses."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counted:
    """The counts of responses.

    Attributes:
        statuses: The number of responses by status.
        body_bytes: The size of all bodies.
    """

    statuses: dict[int, int] = field(default_factory=dict)
    body_bytes: int = 0

    def add(self, status: int, body_bytes: int, count: int = 1) -> None:
        """Adds one response, or several with this status and this total size."""
        self.statuses[status] = self.statuses.get(status, 0) + count
        self.body_bytes += body_bytes
