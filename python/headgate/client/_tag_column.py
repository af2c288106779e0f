"""The tags of many requests as a column of their results."""

from typing import Any, Final

from headgate._checks import kind_of
from headgate.client._request import Native, NativeRequest, RequestLike
from headgate.client._sent_request import tag_of

_TYPES: Final[dict[type, str]] = {bool: "bool", int: "int64", float: "float64", str: "utf8", bytes: "binary"}
"""The types that a column of tags can have. A bool is an int, too, and comes first."""

Tags = tuple[str, list[Any]]
"""The name of a type, and a tag of this type or `None` for each request."""


class TagColumn:
    """Decides with the first request alone whether tags are a column of the results, and of which type."""

    def __init__(self, *, is_dropped: bool) -> None:
        self._is_dropped = is_dropped
        self._has_begun = False
        self._type: type | None = None

    def tags_of(self, requests: list[RequestLike], natives: list[Native]) -> Tags | None:
        """Returns the tags of requests, or `None` if there is no such column.

        A request whose tag has another type than the first one gets a defect in `natives`, so that only this one fails.

        Raises:
            TypeError: The first tag has a type that no column can have.
        """
        if self._is_dropped:
            return None
        if not self._has_begun and requests:
            # Not with more: how many are read at once depends on how fast their source is.
            self._has_begun = True
            first = tag_of(requests[0])
            self._type = None if first is None else _type_of_first(first)
        if self._type is None and set(map(type, requests)) == {str}:
            return None
        tags = [tag_of(request) for request in requests]
        for index, tag in enumerate(tags):
            if tag is not None and (defect := self._defect(tag)) is not None:
                native, tags[index] = natives[index], None
                if isinstance(native, str) or native.defect is None:
                    natives[index] = NativeRequest(native if isinstance(native, str) else native.url, defect=defect)
        return None if self._type is None else (_TYPES[self._type], tags)

    def _defect(self, tag: object) -> str | None:
        """Returns why a tag can't be in the column."""
        if self._type is None:
            return "tag: the first request had none, so the results have no column for it: drop=['tag'] ignores tags"
        if _type_of(tag) is not self._type:
            return f"tag: the first one was {self._type.__name__}, so this one can't be {kind_of(tag)}"
        if isinstance(tag, int) and not -(1 << 63) <= tag < 1 << 63:
            return "tag: an int must fit into 64 bits"
        if isinstance(tag, str) and not tag.isascii():
            try:
                tag.encode()
            except UnicodeEncodeError:
                return "tag: it is text that UTF-8 can't encode"
        return None


def _type_of(tag: object) -> type | None:
    return next((each for each in _TYPES if isinstance(tag, each)), None)


def _type_of_first(tag: object) -> type:
    found = _type_of(tag)
    if found is None:
        names = ", ".join(each.__name__ for each in _TYPES)
        raise TypeError(
            f"tag: a column of results can't have {kind_of(tag)}, only {names}: give one of these, or leave the column"
            " out with drop=['tag']"
        )
    return found
