"""The headers of a response."""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Final, Self

from headgate._checks import kind_of

_SECRET: Final = {"authorization", "proxy-authorization", "cookie", "set-cookie"}
MASK: Final = "***"


class Headers(Mapping[str, str]):
    """Headers by their case-insensitive names; a name that occurs several times has all its values.

    As a mapping, values of one name are joined by commas; `get_list` and `multi_items` keep them apart. Headers are
    equal to others, or to a mapping, if they have the same names, in any case, with the same values.

    >>> headers = headgate.Headers([("Vary", "accept"), ("vary", "origin"), ("Age", "7")])
    >>> headers["VARY"], headers.get("etag"), headgate.Headers({"Age": "7"}) == {"age": "7"}
    ('accept, origin', None, True)
    """

    __module__ = "headgate"

    _secret: Collection[str] = _SECRET
    """The lower-case names of headers whose values `repr` masks."""

    def __init__(self, headers: Mapping[str, str] | Iterable[tuple[str, str]] = ()) -> None:
        self._pairs = _pairs_of(headers)
        self._values: dict[str, list[str]] = {}
        for name, value in self._pairs:
            self._values.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._values[name.lower()])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        pairs, others = ([(name.lower(), value) for name, value in _pairs_of(each)] for each in (self, other))
        return sorted(pairs) == sorted(others)

    __hash__ = None  # type: ignore[assignment] # as of other mappings

    def get_list(self, name: str, *, split_commas: bool = False) -> list[str]:
        """Returns all values of this name, in the order received.

        >>> headers = headgate.Headers([("Vary", "accept, cookie"), ("vary", "origin")])
        >>> headers.get_list("vary"), headers.get_list("vary", split_commas=True)
        (['accept, cookie', 'origin'], ['accept', 'cookie', 'origin'])

        Args:
            name: The name, in any case.
            split_commas: Splits values at commas, which some headers, such as `Set-Cookie`, have within a value.
        """
        values = self._values.get(name.lower(), ())
        return [part.strip() for value in values for part in value.split(",")] if split_commas else list(values)

    def multi_items(self) -> list[tuple[str, str]]:
        """Returns all names and values as they were received.

        >>> headgate.Headers([("Vary", "accept"), ("vary", "origin")]).multi_items()
        [('Vary', 'accept'), ('vary', 'origin')]
        """
        return list(self._pairs)

    def copy(self) -> Self:
        """Returns a copy.

        >>> headers = headgate.Headers({"Age": "7"})
        >>> headers.copy() == headers
        True
        """
        return type(self)(self._pairs)

    def __repr__(self) -> str:
        shown = [(name, MASK if name.lower() in self._secret else value) for name, value in self._pairs]
        return f"{type(self).__name__}({shown!r})"


class RequestHeaders(Headers, MutableMapping[str, str]):
    """The headers of a `PreparedRequest`, which can be changed. Setting a name replaces all of its values."""

    __hash__ = None  # type: ignore[assignment] # as of other mappings

    def __init__(
        self, headers: Mapping[str, str] | Iterable[tuple[str, str]] = (), secret: Collection[str] = ()
    ) -> None:
        super().__init__(headers)
        self._secret = _SECRET.union(secret) if secret else _SECRET

    def copy(self) -> Self:
        return type(self)(self._pairs, self._secret)

    def __setitem__(self, name: str, value: str) -> None:
        # The header keeps its place.
        before = list(itertools.takewhile(lambda pair: pair[0].lower() != name.lower(), self._pairs))
        Headers.__init__(self, [*before, (name, value), *self._all_but(name)[len(before) :]])

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        Headers.__init__(self, self._all_but(name))

    def _all_but(self, name: str) -> list[tuple[str, str]]:
        return [pair for pair in self._pairs if pair[0].lower() != name.lower()]


def _pairs_of(headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    if isinstance(headers, Headers):
        return headers.multi_items()
    given: Any = headers
    return list(given.items() if isinstance(headers, Mapping) else given)


def encoded(name: object, value: object) -> tuple[str, bytes]:
    """Returns a header as the engine reads it.

    Raises:
        TypeError: The name or the value is not text.
    """
    if not isinstance(name, str) or not isinstance(value, str | bytes):
        raise TypeError(f"headers must be names and values in text: that of {name!r} is {kind_of(value)}")
    return name, value if isinstance(value, bytes) else value.encode()
