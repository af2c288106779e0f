"""The notes on options that look like templates and are sent as they are, as curl sends them."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from headgate._message import Mention, Message, Spell, spelled

if TYPE_CHECKING:
    from headgate.jobs._job_options import FetchOptions

_PLACEHOLDER: Final = re.compile(rb"(?<!\{)\{[a-z_]\w*(:\w+|\|[^{}]*)?\}(?!\})", re.IGNORECASE)
"""What stands for a column in a template; a column with another name is rare. It matches no object of JSON."""

_DATA: Final[Message] = (
    Mention("data"),
    " is sent as it is, with its braces; ",
    Mention("json"),
    ", ",
    Mention("data_urlencode"),
    " and ",
    Mention("form"),
    " insert values of columns",
)
_HEADERS: Final[Message] = (
    Mention("headers"),
    " is sent as it is, with its braces; ",
    Mention("header_templates"),
    " inserts values of columns",
)


def notes(options: "FetchOptions", spell: Spell) -> Iterator[str]:
    """Yields the notes without the texts, which may be secret; an input of URLs with ranges has no columns."""
    if any("://" in name for name in options.input):
        return
    if _has_placeholder([options.data or b""]):
        yield spelled(_DATA, spell)
    if _has_placeholder([value.encode(errors="replace") for _, value in options.headers or ()]):
        yield spelled(_HEADERS, spell)


def _has_placeholder(texts: Sequence[bytes]) -> bool:
    return any(_PLACEHOLDER.search(text) for text in texts)
