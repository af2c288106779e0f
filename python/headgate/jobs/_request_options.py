"""The options that say what is asked, and what is an answer."""

from typing import Annotated, TypedDict

from headgate._checks import switch
from headgate._version import __version__
from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import Headers, JobOption, Statuses, StrPath


class AskOptions(TypedDict, total=False):
    """What is asked, and what is an answer."""

    method: Annotated[
        str | None,
        JobOption(
            help="Method of rows that name none.",
            default=None,
            default_means="`GET`, or `POST` if there is `data`",
            check=rules.method,
            group="request",
            flags=("-X", "--method"),
            metavar="METHOD",
            of_job=True,
        ),
    ]
    user_agent: Annotated[
        str,
        JobOption(
            help="The `User-Agent` header.",
            default=f"headgate/{__version__}",
            check=rules.header_value,
            group="request",
            metavar="TEXT",
            of_job=True,
        ),
    ]
    fail_on: Annotated[
        Statuses,
        JobOption(
            help=(
                "Statuses with which a row is given up: it counts as failed and stands in `failed-*`, with its whole"
                ' answer. Codes and classes, as `"429,5xx"` or `[429, "5xx"]`; `()` or `"none"`: every status is an'
                " answer."
            ),
            default="408,425,429,5xx",
            check=rules.statuses,
            given_as="statuses",
            group="output",
            metavar="STATUSES",
            typed="statuses of failed rows, or none",
            of_job=True,
        ),
    ]


class SendOptions(TypedDict, total=False):
    """What goes with every request, and whom it trusts: given to a retry, too."""

    headers: Annotated[
        Headers,
        JobOption(
            help="Sent with each request; a mapping, or pairs where a name repeats.",
            default=(),
            check=rules.headers,
            given_as="headers",
            group="request",
            flags=("-H", "--header"),
            metavar="'NAME: VALUE'",
            typed="send this header; repeats",
            of_job=True,
        ),
    ]
    data: Annotated[
        str | bytes | None,
        JobOption(
            help="Body of rows that bring none. Text is sent as UTF-8.",
            default=None,
            given_as="data",
            group="request",
            flags=("-d", "--data"),
            metavar="DATA",
            typed="body of rows that bring none; @FILE reads it, @- from standard input",
            of_job=True,
        ),
    ]
    cacert: Annotated[
        StrPath | None,
        JobOption(
            help="PEM file of certificates to trust, and no others.",
            default=None,
            default_means="the system's, and Mozilla's",
            given_as="path",
            group="request",
            metavar="FILE",
        ),
    ]
    insecure: Annotated[
        bool,
        JobOption(
            help="Do not verify certificates: anyone on the way can read and change all.",
            default=False,
            check=switch,
            group="request",
        ),
    ]
