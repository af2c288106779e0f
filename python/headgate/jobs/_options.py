"""The options of the functions of a job. Their entries, with defaults and descriptions, are in the engine.

An entry of `FetchKeywords` is an argument of `headgate.fetch` and a flag of `headgate fetch`, one of `RetryKeywords`
the same for a retry.
"""

from typing import Annotated, Final, TypedDict, TypeVar

from headgate import _native
from headgate._checks import address, switch
from headgate._option import OptionSet
from headgate.jobs import _keywords as keywords
from headgate.jobs._auth import AuthOption
from headgate.jobs._option_entry import JobOption
from headgate.jobs._plan_options import LatencyOptions

K = TypeVar("K")

SECTIONS, _ENTRIES = _native.option_entries()
ENTRIES: Final = {entry.pop("name"): JobOption(**entry) for entry in _ENTRIES}


def option_set(kind: type[K], *, of: str, **changed: JobOption) -> OptionSet[K]:
    """The options of a function: those of `kind` that are no entries of their own are the engine's, but for some."""
    return OptionSet(kind, of=of, options={**ENTRIES, **changed})


class InputOptions(keywords.RowOptions, keywords.SubsetOptions, total=False):
    """The options of the input."""


class RequestOptions(keywords.MethodOption, keywords.PolicyOptions, total=False):
    """The method and user agent of requests, and which rows fail."""


class ResponseOptions(keywords.FollowOption, keywords.RedirectChainOption, keywords.ReadOptions, total=False):
    """The options of responses; they belong to a job."""


class SelectOptions(keywords.SelectedOptions, keywords.DropOption, total=False):
    """The options of result columns; they belong to a job."""


class SendOptions(
    keywords.HeaderOptions,
    keywords.BearerOption,
    keywords.TokenOptions,
    keywords.BodyOptions,
    keywords.CompressOption,
    total=False,
):
    """Headers and bodies of requests; a retry has these options, too."""


class ConnectionOptions(
    keywords.TlsOptions,
    keywords.AddressOptions,
    keywords.NetworkOptions,
    keywords.ProxyOptions,
    keywords.VersionOptions,
    keywords.PoolOptions,
    total=False,
):
    """The options of connections; a retry has them, too."""


class RequestLimitOptions(
    keywords.ConcurrencyOption,
    keywords.BodyLimitOptions,
    keywords.AttemptTimeoutOptions,
    keywords.ResourceOptions,
    total=False,
):
    """Limits of requests: concurrency, bodies, timeouts, memory."""


class RateOptions(
    keywords.SettableRateOptions,
    keywords.HostByOption,
    keywords.CostColumnOption,
    keywords.CostRuleOptions,
    total=False,
):
    """Rate limits with hosts and costs; a retry has these options, too."""


class WorkOptions(
    SendOptions,
    ConnectionOptions,
    RequestLimitOptions,
    keywords.RunLimitOptions,
    RateOptions,
    keywords.SettableRetryOptions,
    keywords.SettableStopOptions,
    keywords.RetryableOptions,
    keywords.PartOptions,
    total=False,
):
    """The options that a new job and a retry share."""


class MetricsOption(TypedDict, total=False):
    """Whether metrics are served."""

    metrics: Annotated[
        str | None,
        JobOption(
            help=(
                "Serve metrics for Prometheus at this address while the run continues, such as `127.0.0.1:9464`; with"
                " port 0, at a free one."
            ),
            default=None,
            default_means="not served",
            check=address,
            group="progress",
            metavar="HOST:PORT",
        ),
    ]


class ProgressOption(TypedDict, total=False):
    """Whether progress is shown."""

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
    """Whether the progress of a background run is shown."""

    progress: Annotated[
        bool,
        JobOption(
            help="Show progress on standard error while something waits for the run.",
            default=False,
            check=switch,
        ),
    ]


class FetchKeywords(
    InputOptions,
    keywords.OutputOptions,
    RequestOptions,
    ResponseOptions,
    SelectOptions,
    keywords.SaveOptions,
    WorkOptions,
    AuthOption,
    MetricsOption,
    ProgressOption,
    total=False,
):
    """The options of `headgate.fetch`."""


class StartKeywords(
    InputOptions,
    keywords.OutputOptions,
    RequestOptions,
    ResponseOptions,
    SelectOptions,
    keywords.SaveOptions,
    WorkOptions,
    AuthOption,
    MetricsOption,
    ProgressOfWaiting,
    total=False,
):
    """The options of `headgate.start`."""


class PlanKeywords(FetchKeywords, LatencyOptions, total=False):
    """The options of `headgate.plan`."""


class RetryKeywords(keywords.OnlyOption, WorkOptions, AuthOption, MetricsOption, ProgressOption, total=False):
    """The options of `headgate.Job.retry`."""


class SetKeywords(
    keywords.BearerOption,
    keywords.ConcurrencyOption,
    keywords.SettableRateOptions,
    keywords.SettableRetryOptions,
    keywords.SettableStopOptions,
    total=False,
):
    """The options that can be set while a job runs."""


FETCH: Final = option_set(FetchKeywords, of="fetch")
START: Final = option_set(StartKeywords, of="start")
PLAN: Final = option_set(PlanKeywords, of="plan")
RETRY: Final = option_set(RetryKeywords, of="retry")
SET: Final = option_set(SetKeywords, of="set")
