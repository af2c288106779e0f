"""The options of a job: each is one entry, which gives its keyword, its flag, its help and its default.

An entry of `FetchKeywords` is an argument of `headgate.fetch` and a flag of `headgate fetch`, one of `RetryKeywords`
the same for a retry.
"""

from collections.abc import Iterable
from typing import Annotated, Final, TypedDict

from headgate._checks import switch
from headgate._option import OptionSet
from headgate.jobs._connection_options import ConnectionOptions
from headgate.jobs._input_options import InputOptions
from headgate.jobs._limit_options import ConcurrencyOption, LimitOptions
from headgate.jobs._option_entry import JobOption
from headgate.jobs._output_options import OutputOptions, PartOptions
from headgate.jobs._plan_options import LatencyOptions
from headgate.jobs._rate_options import RateOptions, SettableRateOptions
from headgate.jobs._request_options import AskOptions, SendOptions
from headgate.jobs._response_options import AnswerOptions, ColumnOptions
from headgate.jobs._retry_options import RetryingOptions, SettableRetryingOptions


class WorkOptions(SendOptions, ConnectionOptions, LimitOptions, RateOptions, RetryingOptions, PartOptions, total=False):
    """What a new job and a retry have in common."""


class ProgressOption(TypedDict, total=False):
    """What is shown meanwhile."""

    progress: Annotated[
        bool | None,
        JobOption(
            help="Show progress on standard error.",
            default=None,
            default_means="if it is a terminal, and in notebooks",
            check=switch,
        ),
    ]


class ProgressOfWaiting(TypedDict, total=False):
    """What is shown of a run in the background."""

    progress: Annotated[
        bool,
        JobOption(
            help="Show progress on standard error while something waits for the run.",
            default=False,
            check=switch,
        ),
    ]


class OnlyOption(TypedDict, total=False):
    """Which failed rows are retried."""

    only: Annotated[
        str | Iterable[str] | None,
        JobOption(
            help=(
                "Kinds of errors, as in the column `error`, and statuses:"
                ' `"timeout,status:503"` or `["timeout", "status:5xx"]`. `timeout` includes `connect_timeout`.'
            ),
            default=None,
            default_means="all but `invalid_request`",
            given_as="kinds",
            group="what to retry",
            metavar="KINDS",
            typed="only failures of these kinds, such as timeout,status:503,status:5xx; can be repeated",
        ),
    ]


class FetchKeywords(
    InputOptions, OutputOptions, AskOptions, AnswerOptions, ColumnOptions, WorkOptions, ProgressOption, total=False
):
    """The options of `headgate.fetch`."""


class StartKeywords(
    InputOptions, OutputOptions, AskOptions, AnswerOptions, ColumnOptions, WorkOptions, ProgressOfWaiting, total=False
):
    """The options of `headgate.start`."""


class PlanKeywords(FetchKeywords, LatencyOptions, total=False):
    """The options of `headgate.plan`."""


class RetryKeywords(OnlyOption, WorkOptions, ProgressOption, total=False):
    """The options of `headgate.Job.retry`."""


class SetKeywords(ConcurrencyOption, SettableRateOptions, SettableRetryingOptions, total=False):
    """What can be set of a job while it runs."""


FETCH: Final = OptionSet(FetchKeywords, of="fetch")
START: Final = OptionSet(StartKeywords, of="start")
PLAN: Final = OptionSet(PlanKeywords, of="plan")
RETRY: Final = OptionSet(RetryKeywords, of="retry")
SET: Final = OptionSet(SetKeywords, of="set")
