"""The options that say what is requested, and what counts as an answer."""

from typing import Annotated, TypedDict

from headgate._checks import switch
from headgate._version import __version__
from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import Headers, JobOption, Statuses, StrPath


class AskOptions(TypedDict, total=False):
    """What is requested, and what counts as an answer."""

    method: Annotated[
        str | None,
        JobOption(
            help="Method for rows without their own.",
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
                "Statuses that make a row fail: it counts as failed and is in `failed-*`, with its whole answer."
                ' Codes and classes, as in `"429,5xx"` or `[429, "5xx"]`; with `"none"` or `()`, every status is an'
                " answer."
            ),
            default="408,425,429,5xx",
            check=rules.statuses,
            given_as="statuses",
            group="output",
            metavar="STATUSES",
            typed="statuses that make a row fail, or none",
            of_job=True,
        ),
    ]


class SendOptions(TypedDict, total=False):
    """What is sent with every request, and which certificates are trusted; a retry has these options, too."""

    headers: Annotated[
        Headers,
        JobOption(
            help="Headers to send with each request; a mapping, or pairs if a name repeats.",
            default=(),
            check=rules.headers,
            given_as="headers",
            group="request",
            flags=("-H", "--header"),
            metavar="'NAME: VALUE'",
            typed="send this header; can be repeated",
            of_job=True,
        ),
    ]
    data: Annotated[
        str | bytes | None,
        JobOption(
            help="Body for rows without their own. Text is sent as UTF-8.",
            default=None,
            given_as="data",
            group="request",
            flags=("-d", "--data"),
            metavar="DATA",
            typed="body for rows without their own; @FILE reads a file, @- standard input",
            of_job=True,
        ),
    ]
    cacert: Annotated[
        StrPath | None,
        JobOption(
            help="PEM file with the only certificates to trust.",
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
            help="Don't verify certificates: anyone on the network path can read and change everything.",
            default=False,
            check=switch,
            group="request",
        ),
    ]
