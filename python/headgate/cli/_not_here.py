"""Advice on flags that a verb does not have, for verbs that have only some flags of `headgate fetch`."""

from collections.abc import Callable, Collection

from headgate.cli import _fetch_flags, _foreign


def advice(known: Callable[[], Collection[str]], why: str) -> Callable[[str], str | None]:
    """Returns a function that gives advice on an unknown flag.

    Args:
        known: Returns the flags of the verb.
        why: Why the verb does not have the other flags of `headgate fetch`.
    """

    def of(flag: str) -> str | None:
        if flag in _fetch_flags.parser().names():
            return f"it belongs to headgate fetch; {why}"
        return _foreign.advice(flag) if _foreign.flags_for(flag) <= {*known()} else why

    return of
