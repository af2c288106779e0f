"""The options that say which answer is the result of a row, and what is kept of it."""

from typing import Annotated, TypedDict

from headgate._checks import switch
from headgate.jobs import _option_rules as rules
from headgate.jobs._option_entry import BYTES, JobOption


class AnswerOptions(TypedDict, total=False):
    """What of an answer makes the result; they belong to a job."""

    max_redirects: Annotated[
        int,
        JobOption(
            help="Most redirects to follow for a row; with 0, a redirect is the answer.",
            default=10,
            check=rules.redirects,
            group="request",
            metavar="N",
            of_job=True,
        ),
    ]
    keep_redirects: Annotated[
        bool,
        JobOption(
            help="Keep the redirects of each row, with status and location, in the column `redirects`.",
            default=False,
            check=switch,
            group="output",
            of_job=True,
        ),
    ]
    cookies: Annotated[
        bool,
        JobOption(
            help="Send cookies that a server sets in a redirect along with the next one, separately for each row.",
            default=False,
            check=switch,
            group="request",
            of_job=True,
        ),
    ]
    range: Annotated[
        str | None,
        JobOption(
            help='Ask for a range of bytes, such as `"0-499"` or `"-500"`, or several separated by commas.',
            default=None,
            check=rules.byte_range,
            group="request",
            flags=("-r", "--range"),
            metavar="RANGE",
            of_job=True,
        ),
    ]
    no_body: Annotated[
        bool,
        JobOption(
            help="Keep status and headers only; bodies are not read.",
            default=False,
            default_means="",
            check=switch,
            group="output",
            flags=("--no-body",),
            of_job=True,
        ),
    ]
    raw: Annotated[
        bool,
        JobOption(
            help="Keep bodies as they were sent, without decoding gzip and the like.",
            default=False,
            check=switch,
            group="output",
            of_job=True,
        ),
    ]


class BodyLimitOptions(TypedDict, total=False):
    """How much of a body is read; a retry has these options, too."""

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
    truncate_body: Annotated[
        bool,
        JobOption(
            help="Cut longer bodies off at `max_body_bytes`; such a row does not fail.",
            default=False,
            check=switch,
            group="limits",
            typed="cut longer bodies off there; such a row does not fail",
        ),
    ]
