"""What is known of an option of a job, and the types of what is given as one."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from headgate._option import Option

Redirects: TypeAlias = Literal["follow", "same-origin", "none"]
Json: TypeAlias = str | Mapping[str, Any] | list[Any]
Selection: TypeAlias = str | Iterable[str] | Mapping[str, str]
StrPath: TypeAlias = str | os.PathLike[str]
Inputs: TypeAlias = StrPath | Iterable[StrPath]
Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Statuses: TypeAlias = str | Iterable[int | str]

STANDARD_STREAM: Final = "-"
NONE: Final = "none"
"""Stands for no limit, where one is taken back."""

ALL_COLUMNS: Final = "*"

SECONDS: Final = "seconds"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOption(Option):
    """What is known of an option of a job.

    Attributes:
        given_as: The kind of its value: each reader of options reads it in its own way.
        choices: The values that there are, where they are few.
        section: The `TypedDict` of `_keywords` that it belongs to.
        group: The group of the command line's help in which its flag stands; empty: it has no flag.
        flags: Its flags, where they are not the one of its name.
        metavar: What stands for the value in that help.
        flag_help: What that help says, where it is not the first sentence of `help`.
        of_job: Whether it decides which rows there are, what is asked for each, or what is kept: another value makes
            another job.
        settable: Whether it can be set while a job runs.
        secret: Whether its value may hold a secret, which no `repr` shows.
    """

    given_as: str = "text"
    choices: tuple[str, ...] = ()
    section: str = ""
    group: str = ""
    flags: tuple[str, ...] = ()
    metavar: str = ""
    flag_help: str = ""
    of_job: bool = False
    settable: bool = False
    secret: bool = False

    def flags_of(self, name: str) -> tuple[str, ...]:
        """How it is typed; what is on by default has a flag that turns it off."""
        return self.flags or (f"--{'no-' if self.default is True else ''}{name.replace('_', '-')}",)
