"""The options that limit what each server is asked, and how fast."""

from collections.abc import Mapping
from typing import Annotated, TypedDict

from headgate.jobs._option_entry import CostOf, JobOption, LimitBy


class SettablePaceOptions(TypedDict, total=False):
    """How often requests are made, and how many at once for each host."""

    concurrency_per_host: Annotated[
        int | str | Mapping[str, int | str] | None,
        JobOption(
            help=(
                'Most requests in flight to each host. With `"auto"`, as many as bring the most answers, within'
                ' `concurrency`. A mapping such as `{"slow.example": 2, "*": "auto"}` limits hosts by their names,'
                ' `"*"` being all others.'
            ),
            default=None,
            default_means="no limit but `concurrency`",
            given_as="per host",
            group="rates",
            metavar="[HOST=]N",
            typed="most requests in flight to each host, or to HOST, or auto; can be repeated",
        ),
    ]
    rate: Annotated[
        str | None,
        JobOption(
            help=(
                'Most requests in a time, over all hosts: `"100/s"`, `"6000/m"`, `"5000/h"`, `"1/10s"`. Each attempt'
                " counts."
            ),
            default=None,
            default_means="no limit",
            group="rates",
            metavar="N/TIME",
            typed="most requests in a time, such as 100/s, 6000/m or 1/10s",
        ),
    ]
    rate_per_host: Annotated[
        str | Mapping[str, str] | None,
        JobOption(
            help=(
                'The same for each host. A mapping such as `{"api.example.com": "5/s", "*": "10/s"}` limits hosts by'
                ' their names, `"*"` being all others.'
            ),
            default=None,
            default_means="no limit",
            given_as="per host",
            group="rates",
            metavar="[HOST=]N/TIME",
            typed="the same for each host, or for HOST; can be repeated",
        ),
    ]
    burst: Annotated[
        int | None,
        JobOption(
            help="Requests that may start at once after a pause, where a rate limits them.",
            default=None,
            default_means="as many as the rate allows in 10 ms, and at least 1",
            group="rates",
            metavar="N",
        ),
    ]


class SettableRateOptions(SettablePaceOptions, total=False):
    """How much, and how fast; these can be set while a job runs."""

    rate_cost: Annotated[
        str | None,
        JobOption(
            help=(
                'Most cost in a time, for servers that count something else than requests: `"150000/m"`. What a row'
                " costs is in `cost_column`, or is the size of its body (`cost_of`)."
            ),
            default=None,
            default_means="no limit",
            group="rates",
            metavar="N/TIME",
            typed="most cost in a time, such as 150000/m; each row needs a cost for it",
        ),
    ]


class LimitByOption(TypedDict, total=False):
    """What hosts are told apart by."""

    limit_by: Annotated[
        LimitBy,
        JobOption(
            help=(
                "What counts as one host: a `name`, whatever the scheme and port; an `origin`, which is a scheme, a"
                " name and a port; or an `address`, whatever the names that lead there."
            ),
            default="name",
            group="rates",
            metavar="WHAT",
            typed="what counts as one host: name, origin or address",
        ),
    ]


class CostColumnOption(TypedDict, total=False):
    """What says what a row costs."""

    cost_column: Annotated[
        str | None,
        JobOption(
            help="The input column with the cost of each row, a number.",
            default=None,
            group="rates",
            metavar="NAME",
        ),
    ]


class CostRuleOptions(TypedDict, total=False):
    """What any row costs."""

    cost_from: Annotated[
        str | None,
        JobOption(
            help=(
                "A selected column, of type `int64` or `float64`, that says what a row has cost in the end: what was"
                " estimated by `cost_column` or `cost_of` is corrected by it."
            ),
            default=None,
            default_means="",
            group="rates",
            metavar="COLUMN",
            typed="the selected column that says what a row has cost in the end",
        ),
    ]
    cost_of: Annotated[
        CostOf | None,
        JobOption(
            help="What a row costs, if the input doesn't say it: `body-bytes` is the size of the request body.",
            default=None,
            group="rates",
            metavar="WHAT",
            typed="what a row costs: body-bytes, the size of its request body",
        ),
    ]


class CostOptions(CostColumnOption, CostRuleOptions, total=False):
    """What a row costs."""


class RateOptions(SettableRateOptions, LimitByOption, CostOptions, total=False):
    """The same with what hosts and costs are; a retry has these options, too."""
