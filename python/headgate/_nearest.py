"""Finds the known name that a mistyped one most likely means."""

from collections.abc import Iterable
from typing import Final

_CLOSE: Final = 0.75
"""Below this similarity, a suggestion is a guess and misleads."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Returns the known word that was most likely meant, if one is close enough."""
    candidates = list(known)
    for candidate in candidates:
        if candidate.lower() == word.lower():
            return candidate
    from difflib import get_close_matches  # noqa: PLC0415 - only after a mistake

    return next(iter(get_close_matches(word, candidates, n=1, cutoff=_CLOSE)), None)
