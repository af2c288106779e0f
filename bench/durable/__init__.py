"""What durability promises and costs: one file for each question, all of the shape of `Question`."""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.tables import Target


@dataclass(kw_only=True, slots=True)
class Answer:
    """What was found.

    Attributes:
        title: Of its section.
        targets: What was promised, and what was measured.
        text: More of it, as Markdown.
        raw: All that was measured, for JSON.
        wrong: Every answer that was not right; empty if the figures count.
    """

    title: str
    targets: Sequence[Target]
    text: str
    raw: list[dict[str, Any]]
    wrong: list[str] = field(default_factory=list)


class Question(Protocol):
    """A module of this package."""

    def ask(self, arguments: argparse.Namespace) -> Answer:
        """Measures."""
