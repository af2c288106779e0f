"""Reads the JSON of the engine into dataclasses, by the types of their fields."""

from dataclasses import is_dataclass
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from headgate._message import Message, Spell, as_keyword, message_of, spelled

T = TypeVar("T")

_SPELLED: Final = "spelled"

Sentence: TypeAlias = Annotated[str, _SPELLED]
"""Text in which the engine represents options as data; they are spelled for Python or for the command line."""


def read(kind: type[T], figures: Any, spell: Spell = as_keyword) -> T:  # noqa: ANN401 - what JSON can be
    """Returns an instance of a dataclass; `spell` spells options in messages."""
    value: T = _value(kind, figures, spell)
    return value


def _value(hint: Any, value: Any, spell: Spell) -> Any:  # noqa: ANN401, PLR0911 - a type, and a value of it
    origin, arguments = get_origin(hint), get_args(hint)
    if value is None:
        return None
    if is_dataclass(hint):
        hints = _hints(hint)  # type: ignore[arg-type] # as below
        return hint(**{name: _value(hints[name], each, spell) for name, each in value.items()})  # type: ignore[operator] # it is a class
    if type(None) in arguments:
        return _value(arguments[0], value, spell)
    if hint == Message:
        return message_of(value)
    if origin is tuple:
        kinds = arguments[:1] * len(value) if arguments[1:] == (...,) else arguments
        return tuple(_value(kind, each, spell) for kind, each in zip(kinds, value, strict=True))
    if origin is dict:
        return {arguments[0](name): _value(arguments[1], each, spell) for name, each in value.items()}
    if origin is Annotated:
        return spelled(message_of(value), spell)
    return datetime.fromisoformat(value) if hint is datetime else value


@cache
def _hints(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - a dataclass
    return get_type_hints(kind, include_extras=True)
