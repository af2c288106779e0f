"""A flag of the command line."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Choices: TypeAlias = tuple[str, ...] | Literal["files"] | None
"""The possible values of a flag, if they can be listed, for shell completion."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A flag of the command line.

    Attributes:
        dest: The name of its value.
        names: The names, such as `-c` and `--concurrency`.
        text: The description in one line.
        default: The default, as it is typed or in words; empty: the help omits it.
        details: The whole description in sentences, if it says more than `text`.
        metavar: The placeholder for the value in the help; `None`: the flag has no value.
        value: The value that is set by a flag without one.
        repeats: Whether it may be given more than once.
        choices: The possible values.
        has_signs: Whether a value may begin with a sign, as in `-timeout,+404`.
        group: The group of the help.
        is_shown: Whether the help shows it; it omits the opposite of a switch.
    """

    dest: str
    names: Sequence[str]
    text: str
    default: str = ""
    details: str = ""
    metavar: str | None = None
    value: object = True
    repeats: bool = False
    choices: Choices = None
    has_signs: bool = False
    group: str = ""
    is_shown: bool = True

    def usage(self) -> str:
        """Returns the names and the placeholder."""
        return ", ".join(self.names) + (f" {self.metavar}" if self.metavar else "")

    def row(self) -> tuple[str, str]:
        """Returns the usage, and the description with the default."""
        return self.usage(), f"{self.text} (default: {self.default})" if self.default else self.text
