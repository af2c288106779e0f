"""The options that say which rows there are."""

from collections.abc import Iterable
from typing import Annotated, TypedDict

from headgate.jobs._option_entry import JobOption, StrPath


def _column_or_none(of: str) -> JobOption:
    return JobOption(
        help=f"The input column with {of}.",
        default=None,
        default_means="none",
        group="input",
        metavar="COLUMN",
        of_job=True,
    )


class RowOptions(TypedDict, total=False):
    """Which columns say what is asked."""

    url_column: Annotated[
        str,
        JobOption(
            help="The input column with URLs.",
            default="url",
            group="input",
            metavar="NAME",
            of_job=True,
        ),
    ]
    method_column: Annotated[str | None, _column_or_none("methods")]
    headers_column: Annotated[str | None, _column_or_none("headers")]
    body_column: Annotated[str | None, _column_or_none("request bodies")]
    url_only: Annotated[
        bool,
        JobOption(
            help=(
                "Leave columns `method`, `headers` and `body` that no option names. Otherwise an input that has them is"
                " refused: a row chooses its URL, and more only where you say so."
            ),
            default=False,
            group="input",
            of_job=True,
        ),
    ]
    body_file_column: Annotated[
        str | None, _column_or_none("paths of files, each of which is the body of its row's request")
    ]
    upload_root: Annotated[
        StrPath | None,
        JobOption(
            help=(
                "The directory below which the files are that rows name (in `body_file_column`, or with `{column}` in"
                " the path of a file in `form`). Symbolic links are not followed there."
            ),
            default=None,
            default_means="the directory of the input, or the working directory where the input is no file",
            given_as="path",
            group="input",
            metavar="DIRECTORY",
            of_job=True,
        ),
    ]
    if_none_match_column: Annotated[
        str | None, _column_or_none("values of `If-None-Match`, such as the `ETag` of an earlier answer")
    ]
    if_modified_since_column: Annotated[
        str | None, _column_or_none("values of `If-Modified-Since`: times, or dates as HTTP has them")
    ]
    url: Annotated[
        str | None,
        JobOption(
            help=(
                "Template of the URLs, in place of a column with them: `{column}` stands for the value of a row,"
                " percent-encoded."
            ),
            default=None,
            default_means="the URLs of `url_column`",
            group="input",
            metavar="TEMPLATE",
            of_job=True,
        ),
    ]


class InputOptions(RowOptions, total=False):
    """Which rows there are."""

    keep: Annotated[
        str | Iterable[str],
        JobOption(
            help='Columns of the input to copy into the results, or `"*"` for all.',
            default=(),
            given_as="columns",
            group="input",
            metavar="COLUMNS",
            typed="copy these columns of the input into the results, as in a,b or '*'; can be repeated",
            of_job=True,
        ),
    ]
    head: Annotated[
        int | None,
        JobOption(
            help="Read only the first N rows.",
            default=None,
            default_means="all",
            group="input",
            metavar="N",
            of_job=True,
        ),
    ]
