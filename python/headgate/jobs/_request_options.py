"""The options that say what is asked, and what is an answer."""

from collections.abc import Iterable
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
            default_means="`GET`, or `POST` for a request with a body",
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
            typed="send this header, or those that @FILE has on its lines; repeats",
            of_job=True,
        ),
    ]
    bearer: Annotated[
        StrPath | None,
        JobOption(
            help="Token that is sent as `Authorization: Bearer`, or the path of a file that holds it.",
            default=None,
            check=rules.token,
            given_as="token",
            group="request",
            metavar="@FILE",
            typed="send the token in this file as Authorization: Bearer; @- reads standard input",
        ),
    ]
    user: Annotated[
        StrPath | None,
        JobOption(
            help="`name:password` that is sent as `Authorization: Basic`, or the path of a file that holds it.",
            default=None,
            default_means="those in the URL, if there are any",
            check=rules.user,
            given_as="user",
            group="request",
            flags=("-u", "--user"),
            metavar="NAME:PASSWORD",
            typed="send these as Authorization: Basic; @FILE reads them",
        ),
    ]
    secret_headers: Annotated[
        str | Iterable[str],
        JobOption(
            help=(
                "Names of headers that are credentials, beside `Authorization`, `Proxy-Authorization` and `Cookie`: a"
                " job can be resumed and retried with other values of these."
            ),
            default=(),
            check=rules.header_names,
            given_as="names",
            group="request",
            flags=("--secret-header",),
            metavar="NAME",
            typed="this header is a credential, too: its value may change when a job goes on; repeats",
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
