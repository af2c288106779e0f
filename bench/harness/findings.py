"""Findings of a question, on the screen and in saved files."""

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
    """The result of a measurement.

    Attributes:
        title: The title of the section.
        targets: The promised bounds and the measured figures.
        text: The other results, as Markdown.
        raw: All measurements, a record for each run.
        wrong: All mistakes; empty if the figures count.
    """

    title: str
    targets: Sequence[Target]
    text: str
    raw: list[dict[str, Any]]
    wrong: list[str] = field(default_factory=list)


class Question(Protocol):
    """A module that measures something."""

    def measure(self, arguments: argparse.Namespace) -> Finding:
        """Measures, and returns the finding."""


def of_trials(title: str, targets: Sequence[Target], text: str, trials: Sequence[Trial]) -> Finding:
    """Returns a finding whose mistakes are those of its trials."""
    raw = [dataclasses.asdict(trial) for trial in trials]
    return Finding(title=title, targets=targets, text=text, raw=raw, wrong=tables.mistakes(trials))


def section(finding: Finding) -> str:
    """Returns the section as Markdown: targets first, mistakes last."""
    wrong = "\n".join(f"- WRONG: {mistake}" for mistake in finding.wrong)
    targets = tables.targets_table(finding.targets) if finding.targets else ""
    parts = [f"## {finding.title}", targets, finding.text, wrong]
    return "\n\n".join(part for part in parts if part)


def save(prefix: str, findings: Mapping[str, Finding], about: Mapping[str, Any], head: str) -> None:
    """Saves each finding separately, so that one question can be measured again alone."""
    for name, finding in findings.items():
        found = Kept(about=about, wrong=finding.wrong, records=finding.raw)
        kept.keep(f"{prefix}{name}", found, f"{head}\n\n{section(finding)}\n")
