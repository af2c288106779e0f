"""The options that say how results are written."""

from typing import Annotated, TypedDict

from headgate._checks import one_of, switch
from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import BYTES, FORMATS, SECONDS, Format, JobOption


class PartOptions(TypedDict, total=False):
    """How large a file of results becomes: given to a retry, too."""

    part_bytes: Annotated[
        int,
        JobOption(
            help="Size at which a file of results is closed and the next begun.",
            default=128 * 1024**2,
            unit=BYTES,
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
            unit=SECONDS,
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
