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
class Finding:
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

    def measure(self, arguments: argparse.Namespace) -> Finding:
        """Measures."""


def of_trials(title: str, targets: Sequence[Target], text: str, trials: Sequence[Trial]) -> Finding:
    """All that is wrong is wrong with one of the trials."""
    raw = [dataclasses.asdict(trial) for trial in trials]
    return Finding(title=title, targets=targets, text=text, raw=raw, wrong=tables.mistakes(trials))


def section(finding: Finding) -> str:
    """Targets first, mistakes last."""
    wrong = "\n".join(f"- WRONG: {mistake}" for mistake in finding.wrong)
    targets = tables.targets_table(finding.targets) if finding.targets else ""
    parts = [f"## {finding.title}", targets, finding.text, wrong]
    return "\n\n".join(part for part in parts if part)


def save(prefix: str, findings: Mapping[str, Finding], about: Mapping[str, Any], head: str) -> None:
    """Each by itself, so that one question can be asked again without the others."""
    for name, finding in findings.items():
        found = Kept(about=about, wrong=finding.wrong, records=finding.raw)
        kept.keep(f"{prefix}{name}", found, f"{head}\n\n{section(finding)}\n")
