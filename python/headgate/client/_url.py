"""URLs that callers give as text, or as objects of other libraries."""

from typing import Protocol, TypeAlias


class UrlObject(Protocol):
    """A URL of yarl, httpx, pydantic or `urllib.parse`."""

    @property
    def scheme(self) -> str:
        """The scheme; relative URLs may have none."""
        ...


UrlLike: TypeAlias = str | UrlObject
"""A URL as callers write it: text, or an object of another library."""


def text_of(url: object) -> str | None:
    """Returns the text of a URL; `None` if the argument is none."""
    if isinstance(url, str):
        return url
    # Bytes and paths have no scheme.
    if not isinstance(getattr(url, "scheme", None), str) or isinstance(url, type):
        return None
    unsplit = getattr(url, "geturl", None)
    text = unsplit() if callable(unsplit) else str(url)
    return text if isinstance(text, str) else None
