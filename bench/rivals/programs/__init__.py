"""Clients of Python, each with a `run` that makes requests and counts what came of them."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counted:
    """What came of requests.

    Attributes:
        statuses: How many answers had which.
        body_bytes: Sum of the bodies.
    """

    statuses: dict[int, int] = field(default_factory=dict)
    body_bytes: int = 0

    def add(self, status: int, body_bytes: int, count: int = 1) -> None:
        """One answer, or several with this status and so many bytes in all."""
        self.statuses[status] = self.statuses.get(status, 0) + count
        self.body_bytes += body_bytes
