"""What a map may be asked for, and what is refused: at once, before anything is started."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from inspect import iscoroutine
from typing import Any, Literal, get_args

from headgate.limits._concurrency_limit import ConcurrencyLimit
from headgate.limits._rate import Rate
from headgate.limits._retry import Retry

Errors = Literal["raise", "yield", "skip"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """The arguments of `amap`, which explains them, but for the items."""

    function: Callable[[Any], Any]
    limit: int | ConcurrencyLimit
    buffer: int | None = None
    ordered: bool = False
    window: int | None = None
    errors: Errors = "raise"
    max_errors: int | None = None
    timeout_s: float | None = None
    retry: Retry | None = None
    rate: Rate | None = None
    cost: Callable[[Any], float] | None = None
    key: Callable[[Any], Hashable] | None = None
    per_key: int | None = None

    def __post_init__(self) -> None:
        check_function("function", self.function)
        if not isinstance(self.limit, ConcurrencyLimit):
            check_count("limit", self.limit, 1, or_a=" or a ConcurrencyLimit")
        for name, least in (("buffer", 0), ("window", 0), ("max_errors", 0), ("per_key", 1)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), least)
        if self.errors not in get_args(Errors):
            raise ValueError(f"errors must be one of {', '.join(map(repr, get_args(Errors)))}, not {self.errors!r}")
        check_seconds("timeout_s", self.timeout_s)
        for name, kind in (("retry", Retry), ("rate", Rate)):
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"{name} must be a {kind.__name__}, not {type(value).__name__}")
        for name in ("cost", "key"):
            if getattr(self, name) is not None:
                check_function(name, getattr(self, name))
        self._check_pairs()

    def _check_pairs(self) -> None:
        if self.window is not None and not self.ordered:
            raise ValueError("window means nothing without ordered=True: buffer bounds what is not ordered")
        if self.ordered and self.buffer is not None and self.window is not None:
            raise ValueError("window and buffer are both given: with ordered=True, window bounds what is uncollected")
        if self.max_errors is not None and self.errors == "raise":
            raise ValueError(
                'max_errors means nothing with errors="raise", which raises the first: give "yield" or "skip"'
            )
        if self.cost is not None and self.rate is None:
            raise ValueError("cost means nothing without rate: it is what an item takes of it")
        if (self.key is None) != (self.per_key is None):
            raise ValueError("key and per_key go together: give both, or neither")

    @property
    def is_plain(self) -> bool:
        """Whether nothing is asked for that a flow has to look at for each item."""
        asked = (self.timeout_s, self.retry, self.rate, self.key)
        return isinstance(self.limit, int) and not self.ordered and self.errors != "yield" and asked == (None,) * 4


def check_count(name: str, value: object, least: int, *, or_a: str = "") -> None:
    """Refuses what is not a whole number of at least so much."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int{or_a}, not {type(value).__name__}")
    if value < least:
        raise ValueError(f"{name} must be at least {least}, not {value}")


def check_seconds(name: str, value: object) -> None:
    """Refuses what is not a time in seconds; `None` is no limit."""
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {type(value).__name__}")
    if not value > 0:
        raise ValueError(f"{name} must be more than 0 seconds, not {value}; None is no limit")


def check_function(name: str, function: object) -> None:
    """Refuses what cannot be called; a coroutine most of all, which somebody has called already."""
    if iscoroutine(function):
        function.close()
        raise TypeError(f"{name} is a coroutine, which is one call of it: give the function itself, without ()")
    if not callable(function):
        raise TypeError(f"{name} must be a function, not {type(function).__name__}")
