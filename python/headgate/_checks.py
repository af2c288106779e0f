"""What an argument must be: each rule once, for options and for what makes a limit.

A rule raises `TypeError` or `ValueError` with what the value must be; the caller adds the name of the argument.
"""

from collections.abc import Callable
from inspect import iscoroutine
from math import log10
from typing import Any, Final

Check = Callable[[Any], None]

SECONDS: Final = "a number of seconds"
LONE_SURROGATE: Final = "holds a lone surrogate, which UTF-8 can't encode"

_SHOWN_BELOW: Final = 10**24
"""A whole number from here on is shown by its size: of a long one Python refuses to make text."""


def check(name: str, value: object, rule: Check, hint: str = "") -> None:
    """Applies a rule to an argument; the hint is for a value that is refused.

    Raises:
        TypeError: The argument is of a type that it can't be.
        ValueError: It is of a type that it may be, and not what it must be.
    """
    try:
        rule(value)
    except TypeError as error:
        raise TypeError(f"{name} {error}") from None
    except ValueError as error:
        raise ValueError(f"{name} {error}{hint and '; '}{hint}") from None


def kind_of(value: object) -> str:
    """The name of its type, as messages have it."""
    return "None" if value is None else type(value).__name__


def figure(value: float) -> str:
    """A number, as messages have it."""
    if not isinstance(value, int):
        return f"{value:g}"
    if abs(value) < _SHOWN_BELOW:
        return str(value)
    return f"about {'-' if value < 0 else ''}1e{int(log10(abs(value)))}"


def whole(least: int, most: int | None = None, *, or_a: type | None = None) -> Check:
    """A whole number within bounds; or something of the other type."""
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
    """A number that is right, which the words say; and that fits a float, as clocks and rates count."""

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


def text(value: object) -> None:
    """Text that can be written as UTF-8."""
    if not isinstance(value, str):
        raise TypeError(f"must be text, not {kind_of(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(LONE_SURROGATE) from None


def switch(value: object) -> None:
    """On or off."""
    if not isinstance(value, bool):
        raise TypeError(f"must be True or False, not {value!r}")


def function(value: object) -> None:
    """Something that can be called; a coroutine has been called already."""
    if iscoroutine(value):
        value.close()
        raise TypeError("is a coroutine, which is one call of it: give the function itself, without ()")
    if not callable(value):
        raise TypeError(f"must be a function, not {kind_of(value)}")


def a(kind: type) -> Check:
    """Something of a type."""

    def rule(value: object) -> None:
        if not isinstance(value, kind):
            raise TypeError(f"must be a {kind.__name__}, not {kind_of(value)}")

    return rule


def one_of(known: tuple[object, ...]) -> Check:
    """One of a few values."""

    def rule(value: object) -> None:
        if value not in known:
            raise ValueError(f"must be one of {', '.join(map(str, known))}, not {value!r}")

    return rule
