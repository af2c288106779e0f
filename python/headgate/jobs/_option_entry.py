"""What is known of an option of a job, and the types of what is given as one."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from headgate._option import Option

Format: TypeAlias = Literal["parquet", "ndjson", "none"]
CostOf: TypeAlias = Literal["body-bytes"]
SaveFormat: TypeAlias = Literal["files", "tar"]
Redirects: TypeAlias = Literal["follow", "same-origin", "none"]
Json: TypeAlias = str | Mapping[str, Any] | list[Any]
Selection: TypeAlias = str | Iterable[str] | Mapping[str, str]
LimitBy: TypeAlias = Literal["name", "origin", "address"]
StrPath: TypeAlias = str | os.PathLike[str]
Inputs: TypeAlias = StrPath | Iterable[StrPath]
Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Statuses: TypeAlias = str | Iterable[int | str]

GivenAs: TypeAlias = Literal[
    "plain",
    "path",
    "size",
    "data",
    "json",
    "selection",
    "list",
    "headers",
    "header templates",
    "token",
    "user",
    "names",
    "texts",
    "ports",
    "proxies",
    "columns",
    "statuses",
    "kinds",
    "failures",
    "per host",
    "share",
]
"""How a value is given, where that is not how it is meant: each face reads it in its own way."""

STANDARD_STREAM: Final = "-"
NONE: Final = "none"
"""Stands for no limit, where one is taken back."""

ALL_COLUMNS: Final = "*"
ANY_HOST: Final = "*"
"""Stands for the hosts that are not named, where others are."""

SECONDS: Final = "seconds"
BYTES: Final = "bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOption(Option):
    """What is known of an option of a job.

    Attributes:
        given_as: How its value is given.
        group: The group of the command line's help in which its flag stands; empty: it has no flag.
        flags: Its flags, where they are not the one of its name.
        metavar: What stands for the value in that help.
        typed: What that help says, where it is not the first sentence of `help`.
        of_job: Whether it decides which rows there are, what is asked for each, or what is kept: another value makes
            another job.
        secret: Whether its value may hold a secret, which no `repr` shows.
    """

    given_as: GivenAs = "plain"
    group: str = ""
    flags: tuple[str, ...] = ()
    metavar: str = ""
    typed: str = ""
    of_job: bool = False
    secret: bool = False

    def flags_of(self, name: str) -> tuple[str, ...]:
        """How it is typed; what is on by default has a flag that turns it off."""
        return self.flags or (f"--{'no-' if self.default is True else ''}{name.replace('_', '-')}",)
