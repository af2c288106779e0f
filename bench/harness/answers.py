"""What a question finds, on the screen and in the files that are kept."""

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness import kept, tables
from harness.kept import Kept
from harness.tables import Target
from harness.trial import Trial


@dataclass(kw_only=True, slots=True)
class Answer:
    """What was found.

    Attributes:
        title: Of its section.
        targets: What was promised, and what was measured.
        text: More of it, as Markdown.
        raw: All that was measured, a record for each run.
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


def of_trials(title: str, targets: Sequence[Target], text: str, trials: Sequence[Trial]) -> Answer:
    """All that is wrong is wrong with one of the trials."""
    raw = [dataclasses.asdict(trial) for trial in trials]
    return Answer(title=title, targets=targets, text=text, raw=raw, wrong=tables.mistakes(trials))


def section(answer: Answer) -> str:
    """Targets first, mistakes last."""
    wrong = "\n".join(f"- WRONG: {mistake}" for mistake in answer.wrong)
    targets = tables.targets_table(answer.targets) if answer.targets else ""
    parts = [f"## {answer.title}", targets, answer.text, wrong]
    return "\n\n".join(part for part in parts if part)


def save(prefix: str, answers: Mapping[str, Answer], about: Mapping[str, Any], head: str) -> None:
    """Each by itself, so that one question can be asked again without the others."""
    for name, answer in answers.items():
        found = Kept(about=about, wrong=answer.wrong, records=answer.raw)
        kept.keep(f"{prefix}{name}", found, f"{head}\n\n{section(answer)}\n")
