"""An option is one entry with its name, its type, its default and its description.

A function takes its options as `**options: Unpack[SomeOptions]`, where `SomeOptions` is a `TypedDict` of entries such
as `limit: Annotated[int, Option(...)]`. Type checkers and editors see keyword arguments (PEP 692). From the same
entries, `OptionSet` makes the texts of `help` and `inspect.signature`, fills in defaults, and checks values.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from headgate._checks import Check, check, one_of
from headgate._foreign import hint

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")

REQUIRED: Final = inspect.Parameter.empty
"""The default of an option that must be given."""

_OPTIONS_LINE: Final = re.compile(r"^( *)\*\*options:.*(?:\n\1 +.*)*", re.MULTILINE)
_WIDTH: Final = 112


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """The properties of an option, except its name and its type.

    Attributes:
        help: The description, in sentences.
        default: The default value. If this is `None`, `None` may be given.
        default_means: The default in words, if its value is not clear.
        unit: The unit of a number.
        check: The rule for values. Without a rule, a `Literal` must be one of its values.
        hint: A text that is added to the error of a value with the right type.
        meanings: The effect of each value of a `Literal`. Values that the type does not have are not shown.
    """

    help: str
    default: Any = REQUIRED
    default_means: str = ""
    unit: str = ""
    check: Check | None = None
    hint: str = ""
    meanings: Mapping[str, str] | None = None

    def shown_default(self) -> str:
        """Returns the default for a text."""
        return self.default_means or " ".join(filter(None, (f"`{self.default!r}`", self.unit)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An option with its name and its type."""

    name: str
    type: Any
    option: Option

    def check(self, value: object) -> None:
        """Raises `TypeError` or `ValueError` for an invalid value."""
        if value is None and self.option.default is None:
            return
        rule = self.option.check
        literal = next((each for each in (self.type, *get_args(self.type)) if get_origin(each) is Literal), None)
        if rule is None and literal is not None:
            rule = one_of(get_args(literal))
        if rule is None:
            return
        try:
            rule(value)
        except ValueError as error:
            raise ValueError("; ".join(filter(None, (str(error), self.option.hint)))) from None

    def parameter(self) -> inspect.Parameter:
        """Returns the keyword argument for a signature."""
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=self.option.default, annotation=self.type
        )

    def text(self) -> str:
        """Returns the description and the default in one paragraph."""
        meanings = self.option.meanings or {}
        sentences = [self.option.help]
        sentences += [f'"{value}": {meanings[value]}' for value in get_args(self.type) if value in meanings]
        if self.option.default is not REQUIRED:
            sentences.append(f"Defaults to {self.option.shown_default()}.")
        return " ".join(sentences)


class OptionSet(Generic[K]):
    """The options of one function.

    Attributes:
        entries: The entries by name, in order.
        of: The function, as messages name it.
    """

    def __init__(self, kind: type[K], *, of: str, options: Mapping[str, Option] | None = None) -> None:
        """Reads the entries of a `TypedDict`; `options` are those that are not annotated there."""
        hints = get_type_hints(get_origin(kind) or kind, include_extras=True)
        self.entries: dict[str, Entry] = {name: _entry(name, hint, options or {}) for name, hint in hints.items()}
        self.of = of
        self._defaults = {
            name: entry.option.default for name, entry in self.entries.items() if entry.option.default is not REQUIRED
        }

    def complete(self, given: Mapping[str, object]) -> K:
        """Returns the given options, and the defaults of the rest.

        Raises:
            TypeError: There is no such option, or an option without a default is missing.
        """
        options: Any = {**self._defaults, **given}
        if options.keys() != self.entries.keys():
            self._raise_wrong_names(options)
        return options  # type: ignore[no-any-return] # the very names of `K`

    def read(self, given: Mapping[str, object]) -> K:
        """Returns what `complete` returns, and checks the given values.

        Raises:
            TypeError: As `complete`, or a value has the wrong type.
            ValueError: A value has the right type, but is invalid.
        """
        options = self.complete(given)
        for name, value in given.items():
            check(name, value, self.entries[name].check)
        return options

    def _raise_wrong_names(self, options: Mapping[str, object]) -> None:
        for name in options:
            if name not in self.entries:
                raise TypeError(f"{self.of}() got an unexpected keyword argument {name!r}{hint(name, self.entries)}")
        missing = " and ".join(repr(name) for name in self.entries if name not in options)
        raise TypeError(f"{self.of}() is missing a keyword argument: {missing}")

    def shown_by(self, function: F) -> F:
        """Replaces `**options` in the signature and in the docstring of a function by its options."""
        signature = inspect.signature(function)
        before = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        options = [entry.parameter() for entry in self.entries.values()]
        function.__signature__ = signature.replace(parameters=[*before, *options])  # type: ignore[attr-defined]
        if function.__doc__ is not None:  # `python -OO` removes docstrings
            function.__doc__ = _OPTIONS_LINE.sub(self._texts, inspect.cleandoc(function.__doc__))
        return function

    def _texts(self, found: re.Match[str]) -> str:
        """Returns a paragraph for each option, with the indentation of the line that they replace."""
        indent = found[1]
        return "\n".join(
            textwrap.fill(
                f"{entry.name}: {entry.text()}",
                width=_WIDTH,
                initial_indent=indent,
                subsequent_indent=indent + "    ",
                break_long_words=False,
                break_on_hyphens=False,
            )
            for entry in self.entries.values()
        )


def _entry(name: str, hint: Any, options: Mapping[str, Option]) -> Entry:  # noqa: ANN401 - a type, of any form
    annotated = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Option)), None)
    option = annotated or options.get(name)
    if option is None:
        raise TypeError(f"{name} is annotated with no Option")
    return Entry(name=name, type=hint.__origin__ if annotated else hint, option=option)
