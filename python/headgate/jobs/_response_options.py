"""The options that say which answer is the result of a row, and what is kept of it."""

from collections.abc import Iterable
from typing import Annotated, TypedDict

from headgate.jobs._option_entry import BYTES, JobOption, Redirects, SaveFormat, Selection


class FollowOption(TypedDict, total=False):
    """Which redirects are followed."""

    redirects: Annotated[
        Redirects,
        JobOption(
            help=(
                "Which redirects to follow: `follow` for all, `same-origin` for those to the scheme, host and port of"
                " the request, `none` for none. A redirect that isn't followed is the response."
            ),
            default="follow",
            group="request",
            metavar="WHICH",
            typed="redirects to follow: follow, same-origin or none; others are responses",
            of_job=True,
        ),
    ]
    max_redirects: Annotated[
        int,
        JobOption(
            help="Most redirects to follow for a row; one with more fails.",
            default=10,
            group="request",
            metavar="N",
            of_job=True,
        ),
    ]


class HistoryOption(TypedDict, total=False):
    """What is kept of redirects."""

    keep_redirects: Annotated[
        bool,
        JobOption(
            help="Keep the redirects of each row, with status and location, in the column `redirects`.",
            default=False,
            group="output",
            of_job=True,
        ),
    ]


class ReadOptions(TypedDict, total=False):
    """What is done with answers."""

    cookies: Annotated[
        bool,
        JobOption(
            help="Send cookies that a server sets in a redirect along with the next one, separately for each row.",
            default=False,
            group="request",
            of_job=True,
        ),
    ]
    range: Annotated[
        str | None,
        JobOption(
            help='Ask for a range of bytes, such as `"0-499"` or `"-500"`, or several separated by commas.',
            default=None,
            group="request",
            flags=("-r", "--range"),
            metavar="RANGE",
            of_job=True,
        ),
    ]
    no_body: Annotated[
        bool,
        JobOption(
            help="Keep status and headers only; bodies are not read.",
            default=False,
            default_means="",
            group="output",
            flags=("--no-body",),
            of_job=True,
        ),
    ]
    raw: Annotated[
        bool,
        JobOption(
            help="Keep bodies as they were sent, without decoding gzip and the like.",
            default=False,
            group="output",
            of_job=True,
        ),
    ]


class AnswerOptions(FollowOption, HistoryOption, ReadOptions, total=False):
    """What of an answer makes the result; they belong to a job."""


class TakeOptions(TypedDict, total=False):
    """What of an answer becomes a column."""

    select: Annotated[
        Selection,
        JobOption(
            help=(
                "Columns to make of answers: `name=$.path` takes a value of a JSON body (RFC 9535), `name=header:name`"
                " a header. `name:type=...` gives the column a type: `string`, `int64`, `float64`, `bool`, `timestamp`"
                " or `json`. What is not there is null."
            ),
            default=(),
            given_as="selection",
            group="output",
            metavar="NAME=PATH",
            typed="make a column of a value in JSON answers, as in 'n:int64=$.n', or of header:NAME; can be repeated",
            of_job=True,
        ),
    ]
    require: Annotated[
        str | Iterable[str],
        JobOption(
            help="Selected columns without which a row fails as `unexpected_answer`.",
            default=(),
            given_as="list",
            group="output",
            metavar="COLUMNS",
            typed="selected columns without which a row fails; can be repeated",
            of_job=True,
        ),
    ]


class OmitOption(TypedDict, total=False):
    """What of an answer does not."""

    omit: Annotated[
        str | Iterable[str],
        JobOption(
            help="Columns that the results are to go without, such as `body` and `headers`.",
            default=(),
            given_as="list",
            group="output",
            metavar="COLUMNS",
            typed="leave these columns out of the results, as in body,headers; can be repeated",
            of_job=True,
        ),
    ]


class SelectOptions(TakeOptions, OmitOption, total=False):
    """Which columns results have; they belong to a job."""


class ColumnOptions(SelectOptions, total=False):
    """The same with what bodies are saved as."""

    save_to: Annotated[
        str | None,
        JobOption(
            help=(
                "Template of file names in the output directory: each body is saved there, and not in the results,"
                " which have its `path` and `sha256`. Beside columns there are `{row}`, `{sha256}` and `{ext}`, which"
                " follows from the type of the body."
            ),
            default=None,
            default_means="bodies are a column",
            group="output",
            metavar="TEMPLATE",
            typed="save bodies as files in OUT, with names such as 'images/{id}.{ext}'",
            of_job=True,
        ),
    ]
    save_format: Annotated[
        SaveFormat,
        JobOption(
            help="`files`, or `tar` to save bodies in archives as WebDataset has them, of `part_bytes` each.",
            default="files",
            group="output",
            metavar="FORMAT",
            of_job=True,
        ),
    ]
    checksum_column: Annotated[
        str | None,
        JobOption(
            help="The input column with SHA-256 checksums that saved bodies must have.",
            default=None,
            default_means="none",
            group="output",
            metavar="COLUMN",
            of_job=True,
        ),
    ]


class BodyLimitOptions(TypedDict, total=False):
    """How much of a body is read; a retry has these options, too."""

    max_body_bytes: Annotated[
        int,
        JobOption(
            help="Longest response body, as received and as decoded; a row with a longer one fails.",
            default=16 * 1024**2,
            unit=BYTES,
            given_as="size",
            group="limits",
            metavar="SIZE",
            typed="longest response body; a row with a longer one fails",
        ),
    ]
    truncate_body: Annotated[
        bool,
        JobOption(
            help="Cut longer bodies off at `max_body_bytes`; such a row does not fail.",
            default=False,
            group="limits",
            typed="cut longer bodies off there; such a row does not fail",
        ),
    ]
