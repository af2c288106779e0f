"""The type of the `tag` of requests, which type checkers follow from a request to its outcome."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Tag = TypeVar("Tag", default=Any)
    Tag_co = TypeVar("Tag_co", default=Any, covariant=True)
else:  # a default needs Python 3.13, and has no meaning when the program runs
    from typing import TypeVar

    Tag = TypeVar("Tag")
    Tag_co = TypeVar("Tag_co", covariant=True)
