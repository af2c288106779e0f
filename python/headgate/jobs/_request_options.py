"""The options that say what is requested, and what counts as an answer."""

from collections.abc import Iterable
from typing import Annotated, Literal, TypedDict

from headgate._native import __version__
from headgate.jobs._option_entry import Headers, JobOption, Json, Statuses, StrPath


class MethodOption(TypedDict, total=False):
    """How a row is asked that does not say so."""

    method: Annotated[
        str | None,
        JobOption(
            help="Method for rows without their own.",
            default=None,
            default_means="`GET`, or `POST` for a request with a body",
            group="request",
            flags=("-X", "--method"),
            metavar="METHOD",
            of_job=True,
        ),
    ]


class WhoAsksOptions(TypedDict, total=False):
    """Who asks, and which answers are failures."""

    user_agent: Annotated[
        str,
        JobOption(
            help="The `User-Agent` header.",
            default=f"headgate/{__version__}",
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
            given_as="statuses",
            group="output",
            metavar="STATUSES",
            typed="statuses that make a row fail, or none",
            of_job=True,
        ),
    ]
    robots: Annotated[
        bool,
        JobOption(
            help="Don't fetch what a host's robots.txt disallows (RFC 9309); such rows fail as `blocked_by_robots`.",
            default=False,
            group="request",
            of_job=True,
        ),
    ]


class AskOptions(MethodOption, WhoAsksOptions, total=False):
    """What is requested, and what counts as an answer."""


class HeaderOptions(TypedDict, total=False):
    """The headers of requests."""

    headers: Annotated[
        Headers,
        JobOption(
            help="Headers to send with each request; a mapping, or pairs if a name repeats.",
            default=(),
            given_as="headers",
            secret=True,
            group="request",
            flags=("-H", "--header"),
            metavar="'NAME: VALUE'",
            typed="send this header, or those in @FILE, one per line; can be repeated",
            of_job=True,
        ),
    ]
    bearer: Annotated[
        StrPath | None,
        JobOption(
            help="Token to send as `Authorization: Bearer`, or the path of a file with it.",
            default=None,
            given_as="token",
            secret=True,
            group="request",
            metavar="@FILE",
            typed="send the token in this file as Authorization: Bearer; @- reads standard input",
        ),
    ]
    user: Annotated[
        StrPath | None,
        JobOption(
            help="`name:password` to send as `Authorization: Basic`, or the path of a file with it.",
            default=None,
            default_means="that of the URL, if it has one",
            given_as="user",
            secret=True,
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
                "Names of headers that are credentials, in addition to `Authorization`, `Proxy-Authorization`,"
                " `Cookie` and names such as `X-Api-Key` and `X-Auth-Token`: a job can be resumed and retried with"
                " other values of these."
            ),
            default=(),
            given_as="names",
            group="request",
            flags=("--secret-header",),
            metavar="NAME",
            typed="this header is a credential, too: its value may change from run to run; can be repeated",
        ),
    ]
    credentials_for: Annotated[
        str | Iterable[str],
        JobOption(
            help=(
                "Origins that get the credentials: headers that are credentials, `bearer`, `user` and the client"
                ' certificate. `"https://api.example.com"` is one, `"https://*.example.com"` all hosts below a domain,'
                ' `"*"` every host. Requests to other origins are sent without.'
            ),
            default=(),
            default_means="the origin that all requests go to, where the input says it; otherwise it is required",
            given_as="texts",
            group="request",
            metavar="ORIGIN",
            typed="send credentials to this origin, as in https://*.example.com; can be repeated",
        ),
    ]


class BodyOptions(TypedDict, total=False):
    """The bodies of requests."""

    data: Annotated[
        str | bytes | None,
        JobOption(
            help="Body for rows without their own. Text is sent as UTF-8.",
            default=None,
            given_as="data",
            secret=True,
            group="request",
            flags=("-d", "--data"),
            metavar="DATA",
            typed="body for rows without their own; @FILE reads a file, @- standard input",
            of_job=True,
        ),
    ]
    header_templates: Annotated[
        Headers,
        JobOption(
            help=(
                "Headers to send with each request, with templates as values: `{column}` stands for the value of a row;"
                " a mapping, or pairs if a name repeats."
            ),
            default=(),
            given_as="header templates",
            secret=True,
            group="request",
            flags=("--header-template",),
            metavar="'NAME: TEMPLATE'",
            typed="send this header, where {column} stands for the value of a row; can be repeated",
            of_job=True,
        ),
    ]
    json: Annotated[
        Json | None,
        JobOption(
            help=(
                "JSON body, in whose strings `{column}` stands for the value of a row. A string that is nothing but"
                " `{column}` becomes a value of the column's own type; `{column:string}` is always a string."
            ),
            default=None,
            default_means="none",
            given_as="json",
            secret=True,
            group="request",
            metavar="JSON",
            typed="JSON body, in whose strings {column} stands for the value of a row; @FILE reads it from a file",
            of_job=True,
        ),
    ]
    data_urlencode: Annotated[
        str | Iterable[str],
        JobOption(
            help="`name=template` pairs of a form in the URL encoding, which is the body.",
            default=(),
            given_as="texts",
            secret=True,
            group="request",
            metavar="NAME=TEMPLATE",
            typed="form field of the body, URL-encoded, where {column} stands for the value of a row; can be repeated",
            of_job=True,
        ),
    ]
    form: Annotated[
        str | Iterable[str],
        JobOption(
            help=(
                "`name=template` and `name=@path` fields of a multipart form, which is the body; a path names a file to"
                " send."
            ),
            default=(),
            given_as="texts",
            secret=True,
            group="request",
            flags=("-F", "--form"),
            metavar="NAME=TEMPLATE",
            typed="multipart form field of the body; NAME=@{path} sends a file for each row; can be repeated",
            of_job=True,
        ),
    ]


class CompressOption(TypedDict, total=False):
    """How bodies are sent."""

    compress_body: Annotated[
        Literal["gzip", "zstd"] | None,
        JobOption(
            help=(
                "Compress request bodies with `gzip` or `zstd`, and say so"
                " in `Content-Encoding`; the server must support it."
            ),
            default=None,
            group="request",
            metavar="CODING",
        ),
    ]


class SendOptions(HeaderOptions, BodyOptions, CompressOption, total=False):
    """What is sent with every request; a retry has these options, too."""
