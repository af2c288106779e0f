"""The headers of a response."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Final

_SECRET: Final = {"authorization", "proxy-authorization", "cookie", "set-cookie"}
MASK: Final = "***"


class Headers(Mapping[str, str]):
    """Headers by their case-insensitive names; a name that occurs several times has all its values.

    As a mapping, values of one name are joined by commas; `get_list` and `multi_items` keep them apart.

    >>> headers = headgate.Headers([("Vary", "accept"), ("vary", "origin"), ("Age", "7")])
    >>> headers["VARY"], headers.get("etag")
    ('accept, origin', None)
    """

    __module__ = "headgate"

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._pairs = list(pairs)
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

    def get_list(self, name: str) -> list[str]:
        """Returns all values of this name, in the order received.

        >>> headgate.Headers([("Vary", "accept"), ("vary", "origin")]).get_list("vary")
        ['accept', 'origin']
        """
        return list(self._values.get(name.lower(), ()))

    def multi_items(self) -> list[tuple[str, str]]:
        """Returns all names and values as they were received.

        >>> headgate.Headers([("Vary", "accept"), ("vary", "origin")]).multi_items()
        [('Vary', 'accept'), ('vary', 'origin')]
        """
        return list(self._pairs)

    def __repr__(self) -> str:
        shown = [(name, MASK if name.lower() in _SECRET else value) for name, value in self._pairs]
        return f"Headers({shown!r})"


class RequestHeaders(Headers, MutableMapping[str, str]):
    """The headers of a `PreparedRequest`, which can be changed. Setting a name replaces all of its values."""

    def __setitem__(self, name: str, value: str) -> None:
        self._keep_all_but(name, (name, value))

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._keep_all_but(name)

    def _keep_all_but(self, name: str, *added: tuple[str, str]) -> None:
        kept = [pair for pair in self._pairs if pair[0].lower() != name.lower()]
        Headers.__init__(self, [*kept, *added])
