"""What a question finds, on the screen and in the files that are kept."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from harness import environment, tables
from harness.tables import Target

_ROOT: Final = Path(__file__).parents[2]
_RESULTS: Final = _ROOT / "bench" / "results"


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
    """A module that measures."""

    def ask(self, arguments: argparse.Namespace) -> Answer:
        """Measures."""


def section(answer: Answer) -> str:
    """Targets first, mistakes last."""
    wrong = "\n".join(f"- WRONG: {mistake}" for mistake in answer.wrong)
    targets = tables.targets_table(answer.targets) if answer.targets else ""
    parts = [f"## {answer.title}", targets, answer.text, wrong]
    return "\n\n".join(part for part in parts if part)


def save(subject: str, answers: Mapping[str, Answer], about: Mapping[str, Any], head: str) -> None:
    """Two files for each question, so that one can be asked again without the others."""
    directory = _RESULTS / f"{about['date']}-{environment.machine_kind(about)}"
    directory.mkdir(parents=True, exist_ok=True)
    for name, answer in answers.items():
        found = {"environment": about, "wrong": answer.wrong, "raw": answer.raw}
        (directory / f"{subject}-{name}.json").write_text(json.dumps(found, indent=1) + "\n")
        (directory / f"{subject}-{name}.md").write_text(f"{head}\n\n{section(answer)}\n")
    print(f"kept in {directory.relative_to(_ROOT)}", file=sys.stderr)
