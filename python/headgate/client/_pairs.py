"""Names with values, as mappings or pairs."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from headgate._checks import kind_of

Pairs: TypeAlias = Mapping[str, Any] | Iterable[tuple[str, Any]]

LITERALS: Final = {None: "", True: "true", False: "false"}
"""How these values are sent; others are sent as `str` shows them."""


def items_of(argument: str, given: object) -> Iterator[tuple[Any, Any]]:
    """Yields the names and values of a mapping, or of pairs.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise TypeError(f"{argument} must be a mapping or pairs of names and values, not {kind_of(given)}")
    for item in given.items() if isinstance(given, Mapping) else given:
        if not isinstance(item, tuple | list) or len(item) != 2:  # noqa: PLR2004 - a pair
            raise TypeError(f"{argument} must contain pairs of a name and a value, not {kind_of(item)}")
        yield item[0], item[1]


def pairs_of(argument: str, given: Pairs) -> list[tuple[str, str]]:
    """Returns names and values as text; a list means several values of one name. Raises as `items_of`."""
    pairs = []
    for name, value in items_of(argument, given):
        for one in value if isinstance(value, list | tuple) else (value,):
            is_literal = one is None or isinstance(one, bool)
            pairs.append((str(name), LITERALS[one] if is_literal else str(one)))
    return pairs
