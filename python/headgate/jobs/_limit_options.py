"""The options that say how much there may be at once, and how long it may take."""

from typing import Annotated, TypedDict

from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import BYTES, SECONDS, JobOption


class LimitOptions(TypedDict, total=False):
    """What bounds the work: given to a retry, too."""

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
            unit=SECONDS,
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
            unit=BYTES,
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
            unit=BYTES,
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
            unit=SECONDS,
            check=rules.time_or_none,
            group="limits",
            metavar="SECONDS",
            typed="how long requests in flight may go on after Ctrl-C",
        ),
    ]
