"""Options of single requests, which replace those of the client: how long each may take, and what is accepted."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias, TypedDict

from headgate._checks import check, duration, kind_of, one_of, seconds_of, whole
from headgate._foreign import OTHER_TIMEOUTS
from headgate.jobs._option_entry import Redirects
from headgate.jobs._options import ENTRIES

OfClient: TypeAlias = Literal["client"]

OF_CLIENT: Final[OfClient] = "client"
"""The value of an attribute of a request that means: the value of the client."""

LONGEST_S: Final = 365 * 86_400.0
"""The longest timeout: no timeout is as good as this one."""


class OwnOptions(NamedTuple):
    """The options of one request that are its own, as the engine reads them; `None`: the value of the client."""

    timeout: float | None = None
    connect_timeout: float | None = None
    total_timeout: float | None = None
    pool_timeout: float | None = None
    retries: int | None = None
    max_body_size: int | None = None
    redirects: str | None = None
    max_redirects: int | None = None


class OwnKeywords(TypedDict, total=False):
    """The arguments of a call that are options of the client, too; `headgate.Request` describes them."""

    timeout: float | timedelta | OfClient | None
    connect_timeout: float | timedelta | OfClient | None
    total_timeout: float | timedelta | OfClient | None
    pool_timeout: float | timedelta | OfClient | None
    retries: int | OfClient
    max_body_size: int | OfClient
    redirects: Redirects | OfClient
    max_redirects: int | OfClient


def own_options(request: Any) -> OwnOptions | None:  # noqa: ANN401 - a `Request`, whose module imports this one
    """Returns the request's own options; `None`: it has none.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is invalid.
    """
    given = vars(request).items()
    own = {name: _READERS[name](name, value) for name, value in given if name in _READERS and value != OF_CLIENT}
    return OwnOptions(**own) if own else None


seconds_rule: Final = duration(lambda seconds: 0 < seconds <= LONGEST_S, "seconds above 0, and at most a year")
"""The rule for a timeout."""


def seconds_or_none(name: str, value: object) -> float:
    """Returns a timeout in seconds; `None` is no timeout.

    Raises:
        TypeError: It is no number.
        ValueError: It is not above 0.
    """
    if value is None:
        return LONGEST_S
    seconds = seconds_of(value)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise TypeError(f"{name} must be a number of seconds, not {kind_of(seconds)}: {OTHER_TIMEOUTS}")
    check(name, seconds, seconds_rule)
    return float(seconds)


def _whole(least: int, most: int) -> Callable[[str, object], int]:
    rule = whole(least, most)

    def read(name: str, value: Any) -> int:  # noqa: ANN401 - the rule checks it
        check(name, value, rule)
        return int(value)

    return read


def _redirects(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text such as 'none', not {kind_of(value)}")
    check(name, value, one_of(ENTRIES["redirects"].choices))
    return value


# The bounds are those of the options of the client.
_READERS: Final[dict[str, Callable[[str, Any], Any]]] = {
    "timeout": seconds_or_none,
    "connect_timeout": seconds_or_none,
    "total_timeout": seconds_or_none,
    "pool_timeout": seconds_or_none,
    "retries": _whole(0, 65_535),
    "max_body_size": _whole(0, 1 << 30),
    "redirects": _redirects,
    "max_redirects": _whole(1, 1000),
}
