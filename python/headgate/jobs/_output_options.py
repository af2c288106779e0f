"""The options that say how results are written."""

from typing import Annotated, TypedDict

from headgate.jobs._option_entry import BYTES, SECONDS, Format, JobOption


class PartOptions(TypedDict, total=False):
    """How large a file of results becomes; a retry has this option, too."""

    part_bytes: Annotated[
        int,
        JobOption(
            help="Size at which a file of results is closed and the next one started.",
            default=128 * 1024**2,
            unit=BYTES,
            given_as="size",
            group="output",
            metavar="SIZE",
            typed="start a new file at this size",
        ),
    ]


class OutputOptions(TypedDict, total=False):
    """How results are written."""

    format: Annotated[
        Format | None,
        JobOption(
            help="`parquet`, `ndjson`, or `none` to count results without keeping them.",
            default=None,
            default_means="`parquet`, or `ndjson` to standard output",
            group="output",
            metavar="FORMAT",
            of_job=True,
        ),
    ]
    fresh: Annotated[
        bool,
        JobOption(
            help=(
                "Delete the results of an earlier job and start over, without asking. If the new input has no rows,"
                " the results stay."
            ),
            default=False,
            group="output",
            typed="delete the results of an earlier job in OUT and start over; asks first on a terminal",
        ),
    ]
    resume: Annotated[
        bool,
        JobOption(
            help="Continue where an earlier run of the same job stopped; if `False`, raise `OutputError` instead.",
            default=True,
            group="output",
            typed="refuse if OUT already holds a job",
        ),
    ]
    allow_grown: Annotated[
        bool,
        JobOption(
            help=(
                "Resume even if rows have been added to the end of the input, and do these too. The rows that were"
                " there before must be unchanged."
            ),
            default=False,
            group="output",
            typed="resume even if rows were added to the end of INPUT, and do these too",
        ),
    ]
    commit_every_s: Annotated[
        float | None,
        JobOption(
            help=(
                "How often results are committed, and so how much work a crash can cost. The first commits come after"
                " 1, 2, 4, ... seconds, until that time is reached."
            ),
            default=None,
            default_means="10 seconds; in a run of more than 3 hours 0.1 % of its time so far, up to a minute",
            unit=SECONDS,
            group="output",
            metavar="SECONDS",
            typed="longest time between commits, and so how much work a crash can cost",
        ),
    ]
    window: Annotated[
        int,
        JobOption(
            help="How many rows may be read beyond the oldest unfinished one.",
            default=4_000_000,
            unit="rows",
            group="output",
            metavar="ROWS",
        ),
    ]
