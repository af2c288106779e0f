"""What somebody most likely meant who wrote a name that does not exist."""

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Final, ParamSpec, TypeVar

_Parameters = ParamSpec("_Parameters")
_Result = TypeVar("_Result")

_CLOSE: Final = 0.75
"""Below this likeness a suggestion is a guess, and misleads."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was most likely meant, if one is really close."""
    candidates = list(known)
    for candidate in candidates:
        if candidate.lower() == word.lower():
            return candidate
    from difflib import get_close_matches  # noqa: PLC0415 - only after a mistake

    return next(iter(get_close_matches(word, candidates, n=1, cutoff=_CLOSE)), None)


def with_suggestions(function: Callable[_Parameters, _Result]) -> Callable[_Parameters, _Result]:
    """Names the nearest keyword in the `TypeError` for an unknown one; Python itself does not."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def call(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Result:
        for name in kwargs.keys() - known:
            if (hint := nearest(name, known)) is not None:
                message = f"{function.__name__}() got an unexpected keyword argument {name!r}: did you mean {hint}?"
                raise TypeError(message)
        return function(*args, **kwargs)

    return call
