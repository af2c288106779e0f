"""Messages in which options are data, because the command line and Python spell them differently."""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from headgate import _format


class Mention(NamedTuple):
    """An option in a message.

    Attributes:
        option: The name of the option, which is its keyword in Python.
        value: The value that the message recommends; `None` if it mentions the option alone.
    """

    option: str
    value: bool | int | str | None = None


PIPE_NAME: Final = "rows.ndjson"
PIPE_PREFIX: Final = "headgate-"
"""The name and the beginning of the temporary directory of the pipe through which the engine reads an iterable."""
_PIPE: Final = re.compile(rf"[^\s'\"]*/{PIPE_PREFIX}\w{{8}}/{re.escape(PIPE_NAME)}")

Message: TypeAlias = tuple[str | Mention, ...]
Spell: TypeAlias = Callable[[Mention], str]


def message_of(message: str | Iterable[str | Mapping[str, Any]]) -> Message:
    """Returns the message for the JSON of the engine, which may be text alone; the pipe of an iterable has no path."""
    pieces = [message] if isinstance(message, str) else message
    return tuple(
        _PIPE.sub("the rows of an iterable", piece) if isinstance(piece, str) else Mention(**piece) for piece in pieces
    )


def spelled(message: Message, spell: Spell) -> str:
    """Returns the message as text, escaped for a terminal: it may quote a file of unknown origin."""
    return "".join(_format.printable(piece) if isinstance(piece, str) else spell(piece) for piece in message)


def as_keyword(mention: Mention) -> str:
    """Returns the option as a keyword of Python: `timeout`, `if_exists='overwrite'`, `format='ndjson'`."""
    return mention.option if mention.value is None else f"{mention.option}={mention.value!r}"
