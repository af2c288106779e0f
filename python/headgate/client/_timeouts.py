"""The options of clients that bound how long a call takes."""

from datetime import timedelta
from typing import Annotated, Any, Final, TypedDict

from headgate.client._own_options import LONGEST_S, seconds_rule
from headgate.jobs._option_entry import SECONDS, JobOption
from headgate.jobs._options import ENTRIES

_TOTAL_TIMEOUT_S: Final = 300
_MAX_PAUSE_S: Final = 60

_OF_MANY: Final = (
    "Requests of `fetch_many` and rows of tables, which wait in a queue by design, have {} only if you give it"
)


class ClientTimeoutOptions(TypedDict, total=False):
    """The timeouts of clients that differ from those of jobs: `None` is no timeout."""

    timeout: float | timedelta | None
    connect_timeout: float | timedelta | None
    pool_timeout: Annotated[
        float | timedelta | None,
        JobOption(
            help="Longest time that a call waits for a slot: for one of the `concurrency`, or of its host. It fails"
            " with `headgate.PoolTimeout`.",
            default=None,
            default_means="none",
            unit=SECONDS,
            given_as="seconds",
            check=seconds_rule,
        ),
    ]


def _changed(name: str, help: str, default: float, default_means: str = "") -> JobOption:  # noqa: A002 - as in `Option`
    """Returns an option of jobs with another default and description."""
    return JobOption(**{**vars(ENTRIES[name]), "help": help, "default": default, "default_means": default_means})


CHANGED: Final = {
    "total_timeout": _changed(
        "total_timeout",
        "Longest time of a call, whatever it waits for: a slot, a rate, a pause that the host requests, the connection,"
        f" all attempts. `None`: none. {_OF_MANY.format('a total timeout')}: from the first attempt on.",
        _TOTAL_TIMEOUT_S,
    ),
    "retry_max_pause": _changed(
        "retry_max_pause",
        "Longest pause that a call waits for, as with `Retry-After`: with a longer one, it ends with the response that"
        " requested it; other calls that wait for the host fail with `headgate.HostDown`."
        f" {_OF_MANY.format('this limit')}; otherwise that of jobs.",
        _MAX_PAUSE_S,
    ),
}
"""The options with other defaults than those of jobs."""


def of_calls_and_of_many(options: dict[str, Any], given: tuple[str, ...] | dict[str, Any]) -> dict[str, Any]:
    """Returns how the complete options of a client are read by the engine: for calls, and for many requests."""
    changed = {name: LONGEST_S for name in ("timeout", "connect_timeout") if options[name] is None}
    total_timeout = options["total_timeout"]
    return {
        **changed,
        "call_total_timeout": LONGEST_S if total_timeout is None else total_timeout,
        "call_max_pause": options["retry_max_pause"],
        "total_timeout": total_timeout if "total_timeout" in given else None,
        "retry_max_pause": options["retry_max_pause"]
        if "retry_max_pause" in given
        else ENTRIES["retry_max_pause"].default,
    }
