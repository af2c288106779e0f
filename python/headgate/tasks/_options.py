"""The options of the functions for many tasks: each is one entry, which type checkers, `help` and checks use.

A mistake raises at once, before anything is started.
"""

from collections.abc import Callable, Hashable
from datetime import timedelta
from typing import Annotated, Any, Final, Generic, Literal, TypedDict, TypeVar

from headgate._checks import a, duration, function, whole
from headgate._option import Option
from headgate._rate_text import rate_call
from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.limits._retry import Retry, retry_for

T = TypeVar("T")

_NO_BOUND: Final = "no bound"
_NONE: Final = "none"
_ERRORS: Final = (
    "What happens to an exception. `KeyboardInterrupt` and `SystemExit` are always raised. A call that ends cancelled,"
    " although neither this nor the end of the program cancelled it, fails with `StrayCancellation`."
)
_MEANINGS: Final = {
    "raise": "it cancels the other calls and is raised after the results before it, with the item in a note.",
    "yield": "each result is a `TaskOutcome`, with the value or the error of an item.",
    "skip": "it is only counted.",
}

time_limit: Final = duration(lambda seconds: seconds > 0, "more than 0 seconds")


class LimitOption(TypedDict):
    """The bound of running calls."""

    limit: Annotated[
        int | ConcurrencyLimit,
        Option(
            help="Maximum number of calls in progress; a `ConcurrencyLimit` can be shared with others, and resized.",
            check=whole(1, or_a=ConcurrencyLimit),
        ),
    ]


class BufferOption(TypedDict, total=False):
    """The bound of uncollected results."""

    buffer: Annotated[
        int | None,
        Option(
            help="Maximum number of results that are done and not collected, in addition to the running calls.",
            default=None,
            default_means="`limit`",
            check=whole(0),
        ),
    ]


class OrderOptions(TypedDict, total=False):
    """The order of the results."""

    ordered: Annotated[
        bool,
        Option(
            help="Whether results come in the order of the items rather than that in which they finish.",
            default=False,
        ),
    ]
    window: Annotated[
        int | None,
        Option(
            help=(
                "With `ordered`, how many items after the oldest uncollected one may be read. A slow item stops new"
                " calls; it never makes a buffer grow."
            ),
            default=None,
            default_means="`limit + buffer - 1`",
            check=whole(0),
        ),
    ]


class ErrorsOption(TypedDict, total=False):
    """How errors are handled by functions that return results."""

    errors: Annotated[Literal["raise", "yield", "skip"], Option(help=_ERRORS, default="raise", meanings=_MEANINGS)]


class ErrorsWithoutResultsOption(TypedDict, total=False):
    """How errors are handled by functions that return no results."""

    errors: Annotated[
        Literal["raise", "skip"],
        Option(help=_ERRORS, default="raise", meanings=_MEANINGS, hint="for outcomes, use amap"),
    ]


class CallOptions(TypedDict, Generic[T], total=False):
    """When calls start, how often they are retried and how long they may take."""

    max_failures: Annotated[
        int | None,
        Option(
            help="If errors are not raised: one failed item more than this raises `TooManyFailures`.",
            default=None,
            default_means=_NO_BOUND,
            check=whole(0),
        ),
    ]
    timeout: Annotated[
        float | timedelta | None,
        Option(
            help=(
                "Seconds (or a `timedelta`) for each attempt, from its start; then it is cancelled and fails with"
                " `TimeoutError`. Time for which a source blocks the event loop doesn't count."
            ),
            default=None,
            default_means=_NO_BOUND,
            check=time_limit,
            hint="None is no limit",
        ),
    ]
    retry: Annotated[
        Retry | None,
        Option(
            help="Which errors are retried, and when. An item holds no slot while it waits for its next attempt.",
            default=None,
            default_means=_NONE,
            check=a(Retry, retry_for),
        ),
    ]
    rate: Annotated[
        Rate | None,
        Option(
            help="How fast attempts may start; can be shared.",
            default=None,
            default_means=_NONE,
            check=a(Rate, rate_call),
        ),
    ]
    cost: Annotated[
        Callable[[T], float] | None,
        Option(
            help="What an item takes from the rate; called before each attempt.",
            default=None,
            default_means="1 each",
            check=function,
        ),
    ]
    key: Annotated[
        Callable[[T], Hashable] | None,
        Option(
            help="What an item belongs to, such as a host or a tenant; any hashable value.",
            default=None,
            default_means=_NONE,
            check=function,
        ),
    ]
    per_key: Annotated[
        int | None,
        Option(
            help=(
                "With `key`, how many calls with the same key may run at once. Others pass items whose key has enough."
            ),
            default=None,
            default_means=_NONE,
            check=whole(1),
        ),
    ]


class SourceOption(TypedDict, total=False):
    """How the source is read."""

    source_in_thread: Annotated[
        bool,
        Option(
            help=(
                "Whether a thread reads the items, up to 64 ahead, so that a source that blocks doesn't block the event"
                " loop. Not for an async iterable."
            ),
            default=False,
        ),
    ]


class AmapOptions(LimitOption, BufferOption, OrderOptions, ErrorsOption, CallOptions[T], SourceOption):
    """The options of `amap`."""


class AmapOptionsButErrors(LimitOption, BufferOption, OrderOptions, CallOptions[T], SourceOption):
    """The options of `amap` on which the type of its results does not depend."""


class ForEachOptions(LimitOption, ErrorsWithoutResultsOption, CallOptions[T], SourceOption):
    """The options of `for_each`."""


def check_pairs(options: AmapOptions[Any]) -> None:
    """Raises an error for options that contradict one another, or have no effect without another one."""
    if options["window"] is not None and not options["ordered"]:
        raise ValueError("window means nothing without ordered=True: buffer bounds what is not ordered")
    if options["buffer"] is not None and options["window"] is not None:
        raise ValueError("window and buffer are both given: with ordered=True, window bounds what is uncollected")
    if options["max_failures"] is not None and options["errors"] == "raise":
        raise ValueError(
            'max_failures means nothing with errors="raise", which raises the first: give "yield" or "skip"'
        )
    if options["cost"] is not None and options["rate"] is None:
        raise ValueError("cost means nothing without rate: it is what an item takes of it")
    if (options["key"] is None) != (options["per_key"] is None):
        raise ValueError("key and per_key go together: give both, or neither")


def are_plain(options: AmapOptions[Any]) -> bool:
    """Returns whether no option needs work for each item."""
    per_item = (options["timeout"], options["retry"], options["rate"], options["key"])
    is_plain = isinstance(options["limit"], int) and not options["ordered"] and options["errors"] != "yield"
    return is_plain and per_item == (None,) * 4
