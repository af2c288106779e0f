"""The options of a plan beside those of the job: what is assumed, and what is tried."""

from typing import Annotated, Final, TypedDict

from headgate import _checks
from headgate.jobs._option_entry import SECONDS, JobOption

_MOST_PROBES: Final = 1000


class LatencyOptions(TypedDict, total=False):
    """The latency that a plan assumes."""

    assume_latency: Annotated[
        float | None,
        JobOption(
            help="How long a response takes, to tell how fast `concurrency` lets the job run.",
            default=None,
            default_means="not known",
            unit=SECONDS,
            check=_checks.number(lambda seconds: seconds > 0, "more than 0 seconds", kind=_checks.SECONDS),
            given_as="seconds",
            group="plan",
            metavar="TIME",
            flag_help="how long a response takes, to tell how fast --concurrency lets the job run",
        ),
    ]
    probe: Annotated[
        int | None,
        JobOption(
            help=(
                "Send the first so many rows, one after another, and measure how long a response takes. Their results"
                " are not kept, and the job sends these rows again."
            ),
            default=None,
            default_means="nothing is sent",
            check=_checks.whole(1, _MOST_PROBES),
            given_as="whole",
            group="plan",
            metavar="N",
            flag_help="SEND the first N rows, one after another, to measure how long a response takes",
        ),
    ]
