"""The options that limit how much happens at once, and how long it takes."""

from typing import Annotated, TypedDict

from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import BYTES, SECONDS, JobOption


class ConcurrencyOption(TypedDict, total=False):
    """How much is in flight; it can be set while a job runs."""

    concurrency: Annotated[
        int,
        JobOption(
            help="Most requests in flight, over all threads and hosts.",
            default=256,
            check=rules.at_least_1,
            group="limits",
            flags=("-c", "--concurrency"),
            metavar="N",
        ),
    ]


class LimitOptions(ConcurrencyOption, total=False):
    """What limits the work; a retry has these options, too."""

    threads: Annotated[
        int | None,
        JobOption(
            help="Worker threads.",
            default=None,
            default_means="one for each core that this process can use",
            check=rules.at_least_1,
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
            check=rules.time,
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
            check=rules.time,
            group="limits",
            metavar="SECONDS",
        ),
    ]
    dns: Annotated[
        str | None,
        JobOption(
            help=(
                'The name server to ask for addresses, such as `"9.9.9.9"` or `"127.0.0.1:5353"`; with `"system"`, the'
                " system looks names up, with all its sources."
            ),
            default=None,
            default_means="the configured name servers",
            check=rules.name_server,
            group="limits",
            metavar="SERVER",
            typed="ask this name server (IP or IP:PORT), or let the system look names up (system)",
        ),
    ]
    max_body_bytes: Annotated[
        int,
        JobOption(
            help="Longest response body, as received and as decoded; a row with a longer one fails.",
            default=16 * 1024**2,
            unit=BYTES,
            check=rules.at_least_0,
            given_as="size",
            group="limits",
            metavar="SIZE",
            typed="longest response body; a row with a longer one fails",
        ),
    ]
    max_memory_bytes: Annotated[
        int,
        JobOption(
            help=(
                "Memory for responses (headers and bodies) until they are written, and for decoding them. When it is"
                " used up, other responses wait. One body at a time may exceed it, so that there is always one that"
                " can finish."
            ),
            default=256 * 1024**2,
            unit=BYTES,
            check=rules.at_least_1_mib,
            given_as="size",
            group="limits",
            metavar="SIZE",
            typed="memory for responses until they are written; when it is used up, others wait",
        ),
    ]
    grace_s: Annotated[
        float,
        JobOption(
            help="How long requests in flight may continue after an interrupt.",
            default=10.0,
            unit=SECONDS,
            check=rules.time_or_none,
            group="limits",
            metavar="SECONDS",
            typed="how long requests in flight may continue after Ctrl-C",
        ),
    ]
