"""The options that limit how much happens at once, and how long it takes."""

from typing import Annotated, TypedDict

from headgate.jobs._option_entry import BYTES, SECONDS, JobOption
from headgate.jobs._response_options import BodyLimitOptions


class ConcurrencyOption(TypedDict, total=False):
    """How much is in flight; it can be set while a job runs."""

    concurrency: Annotated[
        int,
        JobOption(
            help="Most requests in flight, over all threads and hosts.",
            default=256,
            group="limits",
            flags=("-c", "--concurrency"),
            metavar="N",
        ),
    ]


class RequestLimitOptions(ConcurrencyOption, BodyLimitOptions, total=False):
    """How much is done at once, and how long a request may take."""

    threads: Annotated[
        int | None,
        JobOption(
            help="Worker threads.",
            default=None,
            default_means="one for each core that this process can use",
            group="limits",
            metavar="N",
        ),
    ]
    timeout_s: Annotated[
        float,
        JobOption(
            help="Longest time for an attempt, from connecting to the last byte.",
            default=30.0,
            unit=SECONDS,
            group="limits",
            metavar="SECONDS",
        ),
    ]
    connect_timeout_s: Annotated[
        float,
        JobOption(
            help="Longest time for connecting.",
            default=10.0,
            unit=SECONDS,
            group="limits",
            metavar="SECONDS",
        ),
    ]
    first_byte_timeout_s: Annotated[
        float | None,
        JobOption(
            help="Longest time from sending a request to the first byte of its answer.",
            default=None,
            default_means="the time of the attempt",
            unit=SECONDS,
            group="limits",
            metavar="SECONDS",
        ),
    ]
    idle_timeout_s: Annotated[
        float | None,
        JobOption(
            help="Longest time without a byte, in either direction, from the start of the request on.",
            default=None,
            default_means="the time of the attempt",
            unit=SECONDS,
            group="limits",
            metavar="SECONDS",
        ),
    ]
    max_memory_bytes: Annotated[
        int | None,
        JobOption(
            help=(
                "Memory for responses (headers and bodies) until they are written, and for decoding them. When it is"
                " used up, other responses wait. One body at a time may exceed it, so that there is always one that"
                " can finish. Choose about a quarter of what the process may use: it needs memory for itself, for"
                " 8 KiB of each request in flight, and for files and sockets."
            ),
            default=None,
            default_means=(
                "a quarter of the memory that is free and that the process may use (its cgroup can set a limit),"
                " between 16 MiB and 256 MiB"
            ),
            unit=BYTES,
            given_as="size",
            group="limits",
            metavar="SIZE",
            typed="memory for responses until they are written; when it is used up, others wait",
        ),
    ]


class LimitOptions(RequestLimitOptions, total=False):
    """What limits the work; a retry has these options, too."""

    max_page_bytes: Annotated[
        int,
        JobOption(
            help=(
                "A page of a Parquet input may have so many bytes when it is decompressed, and the pages of the rows"
                " that are read at once four times as many. A file with larger pages is refused."
            ),
            default=128 * 1024**2,
            unit=BYTES,
            given_as="size",
            group="limits",
            metavar="SIZE",
        ),
    ]
    grace_s: Annotated[
        float,
        JobOption(
            help="How long requests in flight may continue after an interrupt.",
            default=10.0,
            unit=SECONDS,
            group="limits",
            metavar="SECONDS",
            typed="how long requests in flight may continue after Ctrl-C",
        ),
    ]
