"""Messages with the options that they mention as data: the command line and Python spell them in their own ways."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from headgate import _format


class Mention(NamedTuple):
    """An option that a message speaks of.

    Attributes:
        option: Its name, which is Python's keyword for it.
        value: What the message would set it to; `None`: the message speaks of the option alone.
    """

    option: str
    value: bool | int | str | None = None


Message: TypeAlias = tuple[str | Mention, ...]
Spell: TypeAlias = Callable[[Mention], str]


def message_of(told: str | Iterable[str | Mapping[str, Any]]) -> Message:
    """A message as the engine told it in JSON; text alone is one, too."""
    pieces = [told] if isinstance(told, str) else told
    return tuple(piece if isinstance(piece, str) else Mention(**piece) for piece in pieces)


def spelled(message: Message, spell: Spell) -> str:
    """Returns the message as text, escaped for a terminal: it may quote a file of unknown origin."""
    return "".join(_format.printable(piece) if isinstance(piece, str) else spell(piece) for piece in message)


def as_keyword(mention: Mention) -> str:
    """The option as Python knows it: `timeout_s`, `fresh=True`, `format='ndjson'`."""
    return mention.option if mention.value is None else f"{mention.option}={mention.value!r}"
