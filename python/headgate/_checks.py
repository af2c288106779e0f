"""Rules for arguments, for options and for the constructors of limits.

A rule raises `TypeError` or `ValueError` with a requirement; the caller adds the name of the argument.
"""

from collections.abc import Callable
from datetime import timedelta
from math import log10
from types import CoroutineType
from typing import Any, Final

Check = Callable[[Any], None]

SECONDS: Final = "a number of seconds"
LONE_SURROGATE: Final = "contains a lone surrogate, which UTF-8 can't encode"

_MAX_PORT: Final = 65_535
_SHOWN_BELOW: Final = 10**24
"""Larger whole numbers are shown approximately, because Python refuses to convert very long ones to text."""


def check(name: str, value: object, rule: Check, hint: str = "") -> None:
    """Applies a rule to an argument; the hint is added to a `ValueError`.

    Raises:
        TypeError: The argument has the wrong type.
        ValueError: The argument has the right type, but is invalid.
    """
    try:
        rule(value)
    except TypeError as error:
        raise TypeError(f"{name} {error}") from None
    except ValueError as error:
        raise ValueError(f"{name} {error}{hint and '; '}{hint}") from None


def kind_of(value: object) -> str:
    """Returns the name of the value's type for messages."""
    return "None" if value is None else type(value).__name__


def figure(value: float) -> str:
    """Returns a number for messages."""
    if not isinstance(value, int):
        return f"{value:g}"
    if abs(value) < _SHOWN_BELOW:
        return str(value)
    return f"about {'-' if value < 0 else ''}1e{int(log10(abs(value)))}"


def whole(least: int, most: int | None = None, *, or_a: type | None = None) -> Check:
    """Returns the rule for a whole number within bounds, or a value of the other type."""
    kind = "an int" if or_a is None else f"an int or a {or_a.__name__}"

    def rule(value: object) -> None:
        if or_a is not None and isinstance(value, or_a):
            return
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"must be {kind}, not {kind_of(value)}")
        if value < least:
            raise ValueError(f"must be at least {least}, not {figure(value)}")
        if most is not None and value > most:
            raise ValueError(f"must be at most {most}, not {figure(value)}")

    return rule


def number(is_right: Callable[[float], bool], words: str, *, kind: str = "a number") -> Check:
    """Returns the rule for a number that fits a float and satisfies a condition; `words` describe the condition."""

    def rule(value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"must be {kind}, not {kind_of(value)}")
        try:
            as_float = float(value)
        except OverflowError:
            raise ValueError(f"must be {kind} that fits a float, not {figure(value)}") from None
        if not is_right(as_float):
            raise ValueError(f"must be {words}, not {figure(value)}")

    return rule


def seconds_of(value: Any) -> Any:  # noqa: ANN401 - what is no duration is refused later
    """Returns the seconds of a `timedelta`, and other values as they are."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def duration(is_right: Callable[[float], bool], words: str, *, kind: str = SECONDS) -> Check:
    """Returns the rule of `number` for seconds, which may also be given as a `timedelta`."""
    rule = number(is_right, words, kind=kind)
    return lambda value: rule(seconds_of(value))


def text(value: object) -> None:
    """Requires text that can be encoded as UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"must be text, not {kind_of(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(LONE_SURROGATE) from None


def address(value: object) -> None:
    """Requires an address to listen at, as text."""
    text(value)
    host, colon, port = str(value).rpartition(":")
    if not (host and colon and port.isascii() and port.isdigit() and int(port) <= _MAX_PORT):
        raise ValueError(f"must be HOST:PORT, such as 127.0.0.1:9464, not {value!r}")


def switch(value: object) -> None:
    """Requires a bool."""
    if not isinstance(value, bool):
        raise TypeError(f"must be True or False, not {value!r}")


def function(value: object) -> None:
    """Requires a function. A coroutine, which is the result of a call, gets a special message."""
    if isinstance(value, CoroutineType):
        value.close()
        raise TypeError("is a coroutine, which is one call of it: give the function itself, without ()")
    if not callable(value):
        raise TypeError(f"must be a function, not {kind_of(value)}")


def a(kind: type, write: Callable[[object], str]) -> Check:
    """Returns the rule for a value of a type; `write` returns the code that was probably meant by another value."""

    def rule(value: object) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"must be a {kind.__name__}, not {kind_of(value)}: write {write(value)}")

    return rule


def one_of(known: tuple[object, ...]) -> Check:
    """Returns the rule for one of a few values."""

    def rule(value: object) -> None:
        if value not in known:
            raise ValueError(f"must be one of {', '.join(map(str, known))}, not {value!r}")

    return rule
