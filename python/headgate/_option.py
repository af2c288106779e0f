"""An option is one entry: its name, its type, its default and what is said of it stand at one place.

A function takes its options as `**options: Unpack[SomeOptions]`, where `SomeOptions` is a `TypedDict` of entries as
`limit: Annotated[int, Option(...)]`. Type checkers and editors know that as keyword arguments (PEP 692). `OptionSet`
makes of the same entries what a running program shows of them (`help`, `inspect.signature`), fills in defaults, and
refuses what can't be.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from headgate._checks import Check, check, one_of
from headgate._nearest import nearest

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")

REQUIRED: Final = inspect.Parameter.empty
"""The default of an option that must be given."""

_PLACE: Final = re.compile(r"^( *)\*\*options:.*(?:\n\1 +.*)*", re.MULTILINE)
_WIDTH: Final = 112


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """What is known of an option, beside its name and its type.

    Attributes:
        help: What it does, in sentences.
        default: Its value where it is not given. If this is `None`, `None` may be given.
        default_means: The default in words, where its value does not say it.
        unit: What a figure counts.
        check: What a value must be. Where there is none, a `Literal` must be one of its values.
        hint: What is said, too, where a value is refused that is of a right type.
        meanings: Of a `Literal`: what each value does. Those that the type does not have are not shown.
    """

    help: str
    default: Any = REQUIRED
    default_means: str = ""
    unit: str = ""
    check: Check | None = None
    hint: str = ""
    meanings: Mapping[str, str] | None = None

    def shown_default(self) -> str:
        """The default, as a text has it."""
        return self.default_means or " ".join(filter(None, (f"`{self.default!r}`", self.unit)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An option with its name and its type."""

    name: str
    type: Any
    option: Option

    def check(self, value: object) -> None:
        """Raises `TypeError` or `ValueError` with what it must be, if it can't be that."""
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
        """The keyword argument that it is."""
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=self.option.default, annotation=self.type
        )

    def text(self) -> str:
        """What is said of it, in one paragraph."""
        meanings = self.option.meanings or {}
        sentences = [self.option.help]
        sentences += [f'"{value}": {meanings[value]}' for value in get_args(self.type) if value in meanings]
        if self.option.default is not REQUIRED:
            sentences.append(f"Defaults to {self.option.shown_default()}.")
        return " ".join(sentences)


class OptionSet(Generic[K]):
    """The options of one function.

    Attributes:
        entries: Each by its name, in their order.
    """

    def __init__(self, kind: type[K], *, of: str, options: Mapping[str, Option] | None = None) -> None:
        """Reads the entries of a `TypedDict`; `of` is the function, as messages name it, and `options` differ there."""
        hints = get_type_hints(get_origin(kind) or kind, include_extras=True)
        self.entries: dict[str, Entry] = {name: _entry(name, hint) for name, hint in hints.items()}
        for name, option in (options or {}).items():
            self.entries[name] = replace(self.entries[name], option=option)
        self._of = of
        self._defaults = {
            name: entry.option.default for name, entry in self.entries.items() if entry.option.default is not REQUIRED
        }

    def complete(self, given: Mapping[str, object]) -> K:
        """What was given, and the defaults of what was not.

        Raises:
            TypeError: There is no such option, or one is missing that has no default.
        """
        options: Any = {**self._defaults, **given}
        if options.keys() != self.entries.keys():
            self._refuse(options)
        return options  # type: ignore[no-any-return] # the very names of `K`

    def read(self, given: Mapping[str, object]) -> K:
        """As `complete`; what was given is checked, too.

        Raises:
            TypeError: Also: a value is of a type that it can't be.
            ValueError: A value is of the right type, and not what it must be.
        """
        options = self.complete(given)
        for name, value in given.items():
            check(name, value, self.entries[name].check)
        return options

    def _refuse(self, options: Mapping[str, object]) -> None:
        for name in options:
            if name not in self.entries:
                hint = nearest(name, self.entries)
                asked = f": did you mean {hint}?" if hint else ""
                raise TypeError(f"{self._of}() got an unexpected keyword argument {name!r}{asked}")
        missing = " and ".join(repr(name) for name in self.entries if name not in options)
        raise TypeError(f"{self._of}() is missing a keyword argument: {missing}")

    def shown_by(self, function: F) -> F:
        """Gives the function the signature and the docstring of its options, in place of its `**options`."""
        signature = inspect.signature(function)
        before = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        options = [entry.parameter() for entry in self.entries.values()]
        function.__signature__ = signature.replace(parameters=[*before, *options])  # type: ignore[attr-defined]
        if function.__doc__ is not None:  # which `python -OO` leaves out
            function.__doc__ = _PLACE.sub(self._texts, inspect.cleandoc(function.__doc__))
        return function

    def _texts(self, place: re.Match[str]) -> str:
        """A paragraph for each, with the indentation of the line whose place they take."""
        indent = place[1]
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


def _entry(name: str, hint: Any) -> Entry:  # noqa: ANN401 - a type, of any form
    if get_origin(hint) is Annotated:
        for option in hint.__metadata__:
            if isinstance(option, Option):
                return Entry(name=name, type=hint.__origin__, option=option)
    raise TypeError(f"{name} is annotated with no Option")
