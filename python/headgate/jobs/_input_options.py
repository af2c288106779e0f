"""The options that say which rows there are."""

from collections.abc import Iterable
from typing import Annotated, TypedDict

from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import JobOption


def _column(of: str, default: str) -> JobOption:
    return JobOption(
        help=f"The input column with {of}.",
        default=default,
        check=rules.column,
        group="input",
        metavar="NAME",
        of_job=True,
    )


class InputOptions(TypedDict, total=False):
    """Which rows there are."""

    url_column: Annotated[str, _column("URLs", "url")]
    method_column: Annotated[str, _column("methods, if there is one", "method")]
    headers_column: Annotated[str, _column("headers, if there is one", "headers")]
    body_column: Annotated[str, _column("request bodies, if there is one", "body")]
    keep: Annotated[
        Iterable[str],
        JobOption(
            help="Columns of the input to copy into the results.",
            default=(),
            check=rules.columns,
            given_as="columns",
            group="input",
            metavar="COLUMN",
            typed="copy this column of the input into the results; can be repeated",
            of_job=True,
        ),
    ]
    head: Annotated[
        int | None,
        JobOption(
            help="Read only the first N rows.",
            default=None,
            default_means="all",
            check=rules.at_least_0,
            group="input",
            metavar="N",
            of_job=True,
        ),
    ]
