"""The options that say when a row is asked again, and when a host or the job is given up."""

from collections.abc import Iterable
from typing import Annotated, TypedDict

from headgate.jobs._option_entry import SECONDS, JobOption


class SettableRepeatOptions(TypedDict, total=False):
    """How often and when requests are repeated."""

    retries: Annotated[
        int,
        JobOption(
            help=(
                "How often a row is asked again in a run, after the first attempt. Methods that may do something twice,"
                " such as `POST`, are repeated only if the request can't have arrived, or the server says that it has"
                " done nothing; see `retry_unsafe` and `idempotency_key`."
            ),
            default=3,
            group="retries",
            metavar="N",
        ),
    ]
    retry_delay_s: Annotated[
        float,
        JobOption(
            help=(
                "Longest delay before the second attempt. It doubles with each further one; the actual delay is drawn"
                " evenly from zero up to it."
            ),
            default=0.5,
            unit=SECONDS,
            group="retries",
            metavar="SECONDS",
        ),
    ]
    retry_max_delay_s: Annotated[
        float,
        JobOption(
            help="Where that doubling ends.",
            default=60.0,
            unit=SECONDS,
            group="retries",
            metavar="SECONDS",
            typed="longest delay before any attempt",
        ),
    ]
    deadline_s: Annotated[
        float | None,
        JobOption(
            help="Longest time for a row, from its first attempt to the end of its last one.",
            default=None,
            default_means="none",
            group="retries",
            metavar="SECONDS",
        ),
    ]
    max_retry_after_s: Annotated[
        float,
        JobOption(
            help=(
                "Longest pause that a server may ask for, as with `Retry-After`. If one asks for more, the rows that"
                " wait for it fail as `host_down`."
            ),
            default=3600.0,
            unit=SECONDS,
            group="retries",
            metavar="SECONDS",
        ),
    ]
    host_down_after_s: Annotated[
        float | None,
        JobOption(
            help=(
                "How long a host may send no response before its rows fail as `host_down`. A host that has never sent"
                " one has less time."
            ),
            default=None,
            default_means="900, or 30 for a host that has never responded",
            group="retries",
            metavar="SECONDS",
        ),
    ]


class SettableRetryingOptions(SettableRepeatOptions, total=False):
    """How often and how long; these can be set while a job runs."""

    network_down_after_s: Annotated[
        float | None,
        JobOption(
            help=(
                "How long the network may be down before the job stops, with its rows not done. Meanwhile the job is"
                " paused, and it continues by itself."
            ),
            default=None,
            default_means="300, or 30 if no host has ever responded",
            group="retries",
            metavar="SECONDS",
        ),
    ]
    stop_when_failed: Annotated[
        str | int | None,
        JobOption(
            help=(
                "Stop the job when so many rows have failed, such as `1000`, or such a share of the last 1,000, as"
                ' `"50%"`; with `"never"`, whatever happens.'
            ),
            default=None,
            default_means=(
                "if the first 1,000 rows all fail with one kind of error, of at least 10 hosts or an input of one host"
            ),
            given_as="share",
            group="retries",
            metavar="SHARE",
            typed="stop the job when such a share of rows has failed, as 50%, or so many, as 1000, or never",
        ),
    ]


class RepeatableOptions(TypedDict, total=False):
    """Which requests are repeated."""

    retry_on: Annotated[
        str | Iterable[str | int],
        JobOption(
            help=(
                "Which failures are worth another attempt: kinds of errors, statuses and classes, as in"
                ' `"connect,timeout,429,5xx"` or `["connect", 429]`; `"none"` or `()`: no failure is. `timeout`'
                " includes `connect_timeout`."
            ),
            default="connect,resolve,proxy,closed,timeout,408,425,429,500,502,503,504",
            given_as="failures",
            group="retries",
            metavar="FAILURES",
            typed="failures that are worth another attempt, or none",
        ),
    ]
    retry_unsafe: Annotated[
        bool,
        JobOption(
            help="Also repeat requests that may have an effect twice, such as a `POST` that was not answered.",
            default=False,
            group="retries",
        ),
    ]
    idempotency_key: Annotated[
        bool,
        JobOption(
            help=(
                "Send an `Idempotency-Key` with each row that has none: a UUID that stays the same over attempts and"
                " runs, by which a server can tell that it was asked before. Such rows are repeated whatever their"
                " method."
            ),
            default=False,
            group="retries",
            typed="send an Idempotency-Key with each row, the same for all attempts, and repeat any method",
        ),
    ]


class RetryingOptions(SettableRetryingOptions, RepeatableOptions, total=False):
    """The same with what is repeated; a retry has these options, too."""
