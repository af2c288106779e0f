"""The entry of an option of a job, and the types of its values."""

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

from headgate._option import Option

Redirects: TypeAlias = Literal["follow", "same-origin", "none"]
Json: TypeAlias = str | Mapping[str, Any] | list[Any]
Selection: TypeAlias = str | Iterable[str] | Mapping[str, str]
StrPath: TypeAlias = str | os.PathLike[str]
Inputs: TypeAlias = StrPath | Iterable[StrPath] | Iterable[StrPath | Mapping[str, Any]]
Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Statuses: TypeAlias = str | Iterable[int | str]

STANDARD_STREAM: Final = "-"
NONE: Final = "none"
"""The value that removes a limit."""

ALL_COLUMNS: Final = "*"

SECONDS: Final = "seconds"


def is_table(value: object) -> bool:
    """Returns whether the value is a table, such as a DataFrame; a column of URLs is an iterable like any other."""
    speaks_arrow = any(hasattr(value, name) for name in ("__arrow_c_stream__", "__dataframe__"))
    return speaks_arrow and not hasattr(value, "to_list")


class JobOption(Option):
    """The entry of an option of a job.

    Attributes:
        given_as: The kind of its value, which determines how it is read.
        choices: The possible values, if they can be listed.
        section: The `TypedDict` of `_keywords` that it belongs to.
        group: The group of the command line's help in which its flag stands; empty: it has no flag.
        flags: Its flags, if they differ from its name.
        metavar: The placeholder for the value in that help.
        flag_help: Its text in that help, if that is not the first sentence of `help`.
        of_job: Whether it determines the rows, their requests, or the stored columns: another value makes another job.
        settable: Whether it can be set while a job runs.
        inherited: Whether a retry has it from its job.
        secret: Whether its value may hold a secret, which no `repr` shows.
    """

    def __init__(  # noqa: PLR0913 - keywords
        self,
        *,
        given_as: str = "text",
        choices: tuple[str, ...] = (),
        section: str = "",
        group: str = "",
        flags: tuple[str, ...] = (),
        metavar: str = "",
        flag_help: str = "",
        of_job: bool = False,
        settable: bool = False,
        inherited: bool = False,
        secret: bool = False,
        **of_any: Any,  # noqa: ANN401 - those of `Option`
    ) -> None:
        super().__init__(**of_any)
        self.given_as = given_as
        self.choices = choices
        self.section = section
        self.group = group
        self.flags = flags
        self.metavar = metavar
        self.flag_help = flag_help
        self.of_job = of_job
        self.settable = settable
        self.inherited = inherited
        self.secret = secret

    def flags_of(self, name: str) -> tuple[str, ...]:
        """Returns the flags of the option. A switch that is on by default has a flag that turns it off."""
        return self.flags or (f"--{'no-' if self.default is True else ''}{name.replace('_', '-')}",)
