"""An option is one entry with its name, its type, its default and its description.

A function takes its options as `**options: Unpack[SomeOptions]`, where `SomeOptions` is a `TypedDict` of entries such
as `limit: Annotated[int, Option(...)]`. Type checkers and editors see keyword arguments (PEP 692). From the same
entries, `OptionSet` makes the texts of `help` and `inspect.signature`, fills in defaults, and checks values.
"""

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from types import MethodType
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar, cast, get_args, get_origin, get_type_hints

from headgate._checks import Check, check, one_of
from headgate._foreign import unexpected

F = TypeVar("F", bound=Callable[..., Any])
K = TypeVar("K")

REQUIRED: Final = object()
"""The default of an option that must be given."""

_OPTIONS_LINE: Final = re.compile(r"^( *)\*\*options:.*(?:\n\1 +.*)*", re.MULTILINE)
_WIDTH: Final = 112


class Option:
    """The properties of an option, except its name and its type.

    It is no dataclass, because importing `dataclasses` takes 5 ms, a third of the time of the first client.

    Attributes:
        help: The description, in sentences.
        default: The default value. If this is `None`, `None` may be given.
        default_means: The default in words, if its value is not clear.
        unit: The unit of a number.
        check: The rule for values. Without a rule, a `Literal` must be one of its values.
        hint: A text that is added to the error of a value with the right type.
        meanings: The effect of each value of a `Literal`. Values that the type does not have are not shown.
    """

    def __init__(  # noqa: PLR0913 - keywords
        self,
        *,
        help: str,  # noqa: A002 - as in `argparse`
        default: Any = REQUIRED,  # noqa: ANN401 - of any type
        default_means: str = "",
        unit: str = "",
        check: Check | None = None,
        hint: str = "",
        meanings: Mapping[str, str] | None = None,
    ) -> None:
        self.help = help
        self.default = default
        self.default_means = default_means
        self.unit = unit
        self.check = check
        self.hint = hint
        self.meanings = meanings

    def shown_default(self) -> str:
        """Returns the default for a text."""
        return self.default_means or " ".join(filter(None, (f"`{self.default!r}`", self.unit)))


class Entry(NamedTuple):
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
        """The entries are those of a `TypedDict`; `options` are those that are not annotated there."""
        self.of = of
        self._kind = kind
        self._options = options or {}

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """The entries, which are read on first use."""
        hints = get_type_hints(get_origin(self._kind) or self._kind, include_extras=True)
        return {name: _entry(name, hint, self._options) for name, hint in hints.items()}

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        defaults = {name: entry.option.default for name, entry in self.entries.items()}
        return {name: default for name, default in defaults.items() if default is not REQUIRED}

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
                raise unexpected(self.of, name, self.entries)
        missing = " and ".join(repr(name) for name in self.entries if name not in options)
        raise TypeError(f"{self.of}() is missing a keyword argument: {missing}")

    def shown_by(self, function: F) -> F:
        """Replaces `**options` in the signature and in the docstring of a function by its options."""
        from inspect import Parameter, cleandoc, signature  # noqa: PLC0415 - it takes 4 ms

        def parameter(entry: Entry) -> Parameter:
            default = Parameter.empty if entry.option.default is REQUIRED else entry.option.default
            return Parameter(entry.name, Parameter.KEYWORD_ONLY, default=default, annotation=entry.type)

        written = signature(function)
        before = [each for each in written.parameters.values() if each.kind is not Parameter.VAR_KEYWORD]
        function.__signature__ = written.replace(parameters=[*before, *map(parameter, self.entries.values())])  # type: ignore[attr-defined]
        if function.__doc__ is not None:  # `python -OO` removes docstrings
            function.__doc__ = _OPTIONS_LINE.sub(self._texts, cleandoc(function.__doc__))
        return function

    def _texts(self, found: re.Match[str]) -> str:
        """Returns a paragraph for each option, with the indentation of the line that they replace."""
        import textwrap  # noqa: PLC0415 - as above

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


def shown_by(options: Callable[[], OptionSet[Any]]) -> Callable[[F], F]:
    """Returns a decorator that does the same as `OptionSet.shown_by`, when the method is first looked at."""

    def shown(method: F) -> F:
        return cast("F", _ShownMethod(options, method))

    return shown


class _ShownMethod:
    """A method that gets the texts of its options when it is first looked at, as by `help`.

    An `__init__` doesn't get them by a call, so that creating the first object takes no longer.
    """

    def __init__(self, options: Callable[[], OptionSet[Any]], method: Callable[..., Any]) -> None:
        self._options: Callable[[], OptionSet[Any]] | None = options
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., Any]:
        is_looked_at = instance is None or isinstance(instance, type) or self._method.__name__ != "__init__"
        if is_looked_at and self._options is not None:
            options, self._options = self._options, None
            options().shown_by(self._method)
        return self._method if instance is None else MethodType(self._method, instance)


def _entry(name: str, hint: Any, options: Mapping[str, Option]) -> Entry:  # noqa: ANN401 - a type, of any form
    annotated = next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, Option)), None)
    option = annotated or options.get(name)
    if option is None:
        raise TypeError(f"{name} is annotated with no Option")
    return Entry(name=name, type=hint.__origin__ if annotated else hint, option=option)
