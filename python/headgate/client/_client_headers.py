"""The headers of a client, which can be changed while it is used."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from itertools import chain
from typing import Any

from headgate.client._engine import Engine
from headgate.client._headers import MASK, Headers, encoded
from headgate.client._pairs import items_of


class ClientHeaders(MutableMapping[str, str]):
    """The headers of all requests of a client, by their case-insensitive names.

    A change holds for all requests that are made afterwards, by any thread. The headers include `User-Agent`, `Accept`
    and `Accept-Encoding`, and exclude what other options give: `auth`, `bearer`, `user`.

    >>> client.headers["X-Trace"] = "7"
    >>> dict(client.get("/echo").json()["headers"])["X-Trace"]
    '7'
    >>> del client.headers["x-trace"]
    >>> "X-Trace" in client.headers, client.headers["accept"]
    (False, '*/*')
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def __getitem__(self, name: str) -> str:
        return self._current()[name]

    def __setitem__(self, name: str, value: str) -> None:
        self._engine.change_headers([encoded(name, value)])

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._engine.change_headers([(name, None)])

    def __iter__(self) -> Iterator[str]:
        return iter(self._current())

    def __len__(self) -> int:
        return len(self._current())

    def update(self, given: Any = (), /, **named: str) -> None:  # noqa: ANN401 - as a mapping takes them
        """Sets several headers at once. Pairs may have several values of one name."""
        headers = chain(items_of("headers", given), named.items())
        self._engine.change_headers([encoded(name, value) for name, value in headers])

    def replace(self, headers: Mapping[str, str] | Iterable[tuple[str, str]]) -> None:
        """Sets these headers, and removes those that the client has, except the ones that each request has."""
        kept = {"user-agent", "accept", "accept-encoding"}
        removed = [(name, None) for name in self if name not in kept]
        self._engine.change_headers([*removed, *(encoded(name, value) for name, value in items_of("headers", headers))])

    def get_list(self, name: str) -> list[str]:
        """Returns all values of this name.

        >>> client.headers.get_list("accept")
        ['*/*']
        """
        return self._current().get_list(name)

    def multi_items(self) -> list[tuple[str, str]]:
        """Returns all names and values as they are sent.

        >>> client.headers.multi_items()[1]
        ('accept', '*/*')
        """
        return self._current().multi_items()

    def __repr__(self) -> str:
        shown = [(name, MASK if is_secret else value) for name, value, is_secret in self._engine.headers()]
        return f"Headers({shown!r})"

    def _current(self) -> Headers:
        return Headers((name, value) for name, value, _ in self._engine.headers())
