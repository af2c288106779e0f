"""The options that say which rows there are."""

from collections.abc import Iterable
from typing import Annotated, TypedDict

from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import JobOption


def _column(of: str, default: str) -> JobOption:
    return JobOption(
        help=f"The input's column of {of}.",
        default=default,
        check=rules.column,
        group="input",
        metavar="NAME",
        of_job=True,
    )


class InputOptions(TypedDict, total=False):
    """Which rows there are."""

    url_column: Annotated[str, _column("URLs", "url")]
    method_column: Annotated[str, _column("methods, if it has one", "method")]
    headers_column: Annotated[str, _column("headers, if it has one", "headers")]
    body_column: Annotated[str, _column("request bodies, if it has one", "body")]
    keep: Annotated[
        Iterable[str],
        JobOption(
            help="Columns of the input to carry into the result.",
            default=(),
            check=rules.columns,
            given_as="columns",
            group="input",
            metavar="COLUMN",
            typed="carry this column of the input into the results; repeats",
            of_job=True,
        ),
    ]
    head: Annotated[
        int | None,
        JobOption(
            help="Do only the first so many rows.",
            default=None,
            default_means="all",
            check=rules.at_least_0,
            group="input",
            metavar="N",
            typed="read only the first N rows",
            of_job=True,
        ),
    ]
