"""What a job is asked for: each option is one entry, from which come its keyword, its flag, its help and its default.

An entry of `FetchKeywords` is an argument of `headgate.fetch` and a flag of `headgate fetch`, one of `RetryKeywords`
the same for a retry.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, TypeAlias, TypedDict, get_args

from headgate._checks import one_of, switch
from headgate._option import Option, OptionSet
from headgate._version import __version__
from headgate.jobs import _option_rules as rules

Format: TypeAlias = Literal["parquet", "ndjson", "none"]
StrPath: TypeAlias = str | os.PathLike[str]
Headers: TypeAlias = Mapping[str, str] | Iterable[tuple[str, str]]
Statuses: TypeAlias = str | Iterable[int | str]

GivenAs: TypeAlias = Literal["plain", "path", "size", "data", "headers", "columns", "statuses", "kinds"]
"""How a value is given, where that is not how it is meant: each face reads it in its own way."""

FORMATS: Final[tuple[Format, ...]] = get_args(Format)
STANDARD_STREAM: Final = "-"

_SECONDS: Final = "seconds"
_BYTES: Final = "bytes"


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
    """

    given_as: GivenAs = "plain"
    group: str = ""
    flags: tuple[str, ...] = ()
    metavar: str = ""
    typed: str = ""
    of_job: bool = False

    def flags_of(self, name: str) -> tuple[str, ...]:
        """How it is typed; what is on by default has a flag that turns it off."""
        return self.flags or (f"--{'no-' if self.default is True else ''}{name.replace('_', '-')}",)


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


class WorkOptions(TypedDict, total=False):
    """How the work is done: what a new job and a retry of one have in common."""

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
    concurrency: Annotated[
        int,
        JobOption(
            help="Requests in flight at the most.",
            default=256,
            check=rules.at_least_1,
            group="limits",
            flags=("-c", "--concurrency"),
            metavar="N",
        ),
    ]
    threads: Annotated[
        int | None,
        JobOption(
            help="Worker threads. The cores are those that this process may use.",
            default=None,
            default_means="one for each core",
            check=rules.at_least_1,
            group="limits",
            metavar="N",
        ),
    ]
    timeout_s: Annotated[
        float,
        JobOption(
            help="Longest time for one attempt, from connecting to the last byte.",
            default=30.0,
            unit=_SECONDS,
            check=rules.time,
            group="limits",
            metavar="SECONDS",
        ),
    ]
    connect_timeout_s: Annotated[
        float,
        JobOption(
            help="Longest time for making a connection.",
            default=10.0,
            unit=_SECONDS,
            check=rules.time,
            group="limits",
            metavar="SECONDS",
        ),
    ]
    dns: Annotated[
        str | None,
        JobOption(
            help=(
                'Who is asked for the addresses of names: a name server, as `"9.9.9.9"` or `"127.0.0.1:5353"`;'
                ' `"system"`: the system, with all that it knows of names.'
            ),
            default=None,
            default_means="those that the system is configured with",
            check=rules.name_server,
            group="limits",
            metavar="SERVER",
            typed="ask this name server, IP or IP:PORT, or let the system look names up: system",
        ),
    ]
    max_body_bytes: Annotated[
        int,
        JobOption(
            help="A longer response body, as received or decoded, is a failure.",
            default=16 * 1024**2,
            unit=_BYTES,
            check=rules.at_least_0,
            given_as="size",
            group="limits",
            metavar="SIZE",
            typed="a longer response body is a failure",
        ),
    ]
    max_memory_bytes: Annotated[
        int,
        JobOption(
            help=(
                "What responses, headers and bodies, take in memory until they are written, and what decoding them"
                " takes: others wait meanwhile, and their servers with them. One body at a time may go beyond it, so"
                " that there is always one that comes to its end."
            ),
            default=256 * 1024**2,
            unit=_BYTES,
            check=rules.at_least_1_mib,
            given_as="size",
            group="limits",
            metavar="SIZE",
            typed="for responses until they are written, and for decoding them; others wait meanwhile",
        ),
    ]
    grace_s: Annotated[
        float,
        JobOption(
            help="How long requests in flight may go on after an interrupt.",
            default=10.0,
            unit=_SECONDS,
            check=rules.time_or_none,
            group="limits",
            metavar="SECONDS",
            typed="how long requests in flight may go on after Ctrl-C",
        ),
    ]
    part_bytes: Annotated[
        int,
        JobOption(
            help="Size at which a file of results is closed and the next begun.",
            default=128 * 1024**2,
            unit=_BYTES,
            check=rules.at_least_1,
            given_as="size",
            group="output",
            metavar="SIZE",
            typed="begin a new file at this size",
        ),
    ]


class OutputOptions(TypedDict, total=False):
    """How results are written."""

    format: Annotated[
        Format | None,
        JobOption(
            help="`parquet`, `ndjson`, or `none` to count and drop.",
            default=None,
            default_means="`parquet`, or `ndjson` to standard output",
            check=one_of(FORMATS),
            group="output",
            metavar="FORMAT",
            of_job=True,
        ),
    ]
    fresh: Annotated[
        bool,
        JobOption(
            help=(
                "Replace what an earlier job left in `output`; nobody is asked. For an input without rows, it is kept."
            ),
            default=False,
            check=switch,
            group="output",
            typed="replace what an earlier job left in OUT, if there is a row to ask for; on a terminal it asks first",
        ),
    ]
    resume: Annotated[
        bool,
        JobOption(
            help="Go on where an earlier run of the same job stopped; `False` raises `OutputError` if there was one.",
            default=True,
            check=switch,
            group="output",
            typed="refuse if OUT already holds a job",
        ),
    ]
    commit_every_s: Annotated[
        float,
        JobOption(
            help="How often results are committed: what a crash can cost.",
            default=10.0,
            unit=_SECONDS,
            check=rules.time,
            group="output",
            metavar="SECONDS",
        ),
    ]
    window: Annotated[
        int,
        JobOption(
            help="Rows between the oldest that is not done and the newest that was read, at the most.",
            default=4_000_000,
            unit="rows",
            check=rules.at_least_1,
            group="output",
            metavar="ROWS",
        ),
    ]


class ProgressOption(TypedDict, total=False):
    """What is shown meanwhile."""

    progress: Annotated[
        bool | None,
        JobOption(
            help="Show progress on standard error.",
            default=None,
            default_means="where it is a terminal",
            check=switch,
        ),
    ]


class OnlyOption(TypedDict, total=False):
    """Which failed rows are asked again."""

    only: Annotated[
        str | Iterable[str] | None,
        JobOption(
            help=(
                "Kinds of failures, as in the column `error`, and statuses:"
                ' `"timeout,status:503"` or `["timeout", "status:5xx"]`. `timeout` asks `connect_timeout` again, too.'
            ),
            default=None,
            default_means="all",
            check=rules.kinds,
            given_as="kinds",
            group="what to ask again",
            metavar="KINDS",
            typed="failures of these kinds, as timeout,status:503,status:5xx; repeats",
        ),
    ]


class FetchKeywords(InputOptions, OutputOptions, AskOptions, WorkOptions, ProgressOption, total=False):
    """The options of `headgate.fetch`."""


class RetryKeywords(OnlyOption, WorkOptions, ProgressOption, total=False):
    """The options of `headgate.Job.retry`."""


FETCH: Final = OptionSet(FetchKeywords, of="fetch")
RETRY: Final = OptionSet(RetryKeywords, of="retry")
