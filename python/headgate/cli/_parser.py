"""Parses a command line in two steps: first the flags, then their values. It reports all mistakes at once.

`argparse` parses the flags and writes the help. It gets no types, choices or required flags, because it would stop at
the first mistake: `Values` reads the values and collects the mistakes.
"""

import argparse
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from reprlib import repr as short
from typing import Any, Final, Literal, NoReturn, TypeAlias

from headgate._checks import Check
from headgate._nearest import nearest
from headgate.cli._wrapping import help_width, wrapped

_MISSING: Final = "\0missing"
"""Marks a flag whose value is missing; no argument of a process can contain a NUL."""

_HELP: Final = "print this"

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)?\s*([a-z]+)")
_RATE_UNITS_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_SIZE_UNITS: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{unit: 1024**power for power, letter in enumerate("kmgt", 1) for unit in (letter, f"{letter}ib")},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}


Choices: TypeAlias = tuple[str, ...] | Literal["files"] | None
"""The possible values of a flag, if they can be listed, for shell completion."""

_FILES: Final = ("FILE", "INPUT", "OUT")


@dataclass(frozen=True, kw_only=True, slots=True)
class Flag:
    """A flag of the command line.

    Attributes:
        names: The names, such as `-c` and `--concurrency`.
        text: The description.
        metavar: The placeholder for the value in the help; `None`: the flag has no value.
        repeats: Whether it may be given more than once.
        choices: The possible values.
    """

    names: Sequence[str]
    text: str
    metavar: str | None = None
    repeats: bool = False
    choices: Choices = None


class CommandLineError(Exception):
    """The mistakes of a command line, each on a separate line."""

    def __init__(self, mistakes: Sequence[str], *, see: str = "headgate --help") -> None:
        super().__init__("\n".join([*(f"error: {mistake}" for mistake in mistakes), f"see `{see}`"]))


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help with `-c, --concurrency N` on one line, whatever the version of Python, that fits the terminal."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30, width=help_width())

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings:
            return str(action.metavar)
        value = "" if action.nargs == 0 else f" {action.metavar}"
        return ", ".join(action.option_strings) + value

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        del indent
        return wrapped(text, width)


class Parser:
    """Flags and arguments of one verb."""

    def __init__(
        self,
        verb: str,
        *,
        usage: str,
        description: str,
        examples: str,
        elsewhere: Callable[[str], str | None] = lambda _: None,
    ) -> None:
        """Creates a parser without flags; `elsewhere` returns advice on a flag of another program."""
        self._elsewhere = elsewhere
        self._see = f"headgate {verb} --help"
        self._argparse = _ArgumentParser(
            prog=f"headgate {verb}",
            usage=f"headgate {verb} {usage}",
            description=description,
            epilog=examples,
            formatter_class=_Formatter,
            allow_abbrev=False,
            add_help=False,
        )
        self._names: dict[str, str] = {}
        self._group: argparse._ActionsContainer = self._argparse
        self._argument = ""
        self._flags: list[Flag] = []
        self.argument_choices: Choices = None
        self.argument_metavar: str = ""
        self.argument_repeats: bool = False

    def group(self, title: str) -> None:
        """Starts a group of the help."""
        self._group = self._argparse.add_argument_group(title)

    def argument(self, dest: str, metavar: str, text: str, *, choices: Choices = None, repeats: bool = False) -> None:
        """Adds the only positional argument, which can have several values."""
        self.argument_repeats = repeats
        self.argument_choices = _choices(metavar, choices)
        self.argument_metavar = metavar
        self._group.add_argument(dest, metavar=metavar, nargs="*", help=_escaped(text))
        self._names[dest] = metavar
        self._argument = dest

    def value(
        self, dest: str, *flags: str, metavar: str, text: str, repeats: bool = False, choices: Choices = None
    ) -> None:
        """Adds a flag with a value."""
        self._flags.append(
            Flag(names=flags, text=text, metavar=metavar, repeats=repeats, choices=_choices(metavar, choices))
        )
        action = "append" if repeats else "store"
        self._group.add_argument(
            *flags, dest=dest, metavar=metavar, action=action, nargs="?", const=_MISSING, help=_escaped(text)
        )
        self._names[dest] = flags[-1]

    def switch(self, dest: str, *flags: str, text: str) -> None:
        """Adds a flag without a value."""
        self._flags.append(Flag(names=flags, text=text))
        self._group.add_argument(*flags, dest=dest, action="store_true", help=_escaped(text))
        # -4 is a flag, and -5 is still a number, for which the message is that it is too small.
        self._argparse._has_negative_number_optionals.clear()  # noqa: SLF001 - no other way
        self._names[dest] = flags[-1]

    def name_of(self, dest: str) -> str:
        """Returns the name for messages: the long flag, or the word in the usage line."""
        return self._names[dest]

    def flags(self) -> Sequence[Flag]:
        """Returns all flags."""
        return (*self._flags, Flag(names=("-h", "--help"), text=_HELP))

    def read(self, arguments: Sequence[str]) -> "Values | None":
        """Reads a command line; returns `None` after printing the help."""
        self.group("other")
        self.switch("help", "-h", "--help", text=_HELP)
        try:
            typed, unknown = self._argparse.parse_known_args(arguments)
        except _StoppedError as error:
            raise CommandLineError([str(error)], see=self._see) from None
        if typed.help:
            print(self._argparse.format_help(), end="")
            return None
        given = vars(typed)
        if self.argument_repeats:
            # `argparse` reports arguments behind a flag as unknown.
            more = [argument for argument in unknown if _is_value(argument)]
            given[self._argument] = [*(given[self._argument] or []), *more]
            unknown = [argument for argument in unknown if not _is_value(argument)]
        else:
            unknown = [*(given.get(self._argument) or [])[1:], *unknown]
        values = Values(self, given, see=self._see)
        values.mistakes.extend(self._unknown(unknown))
        return values

    def _unknown(self, unknown: Sequence[str]) -> Iterable[str]:
        known = [flag for action in self._argparse._actions for flag in action.option_strings]  # noqa: SLF001 - no other way
        flags = [argument.partition("=")[0] for argument in unknown if argument.startswith("-")]
        for flag in flags:
            elsewhere = self._elsewhere(flag)
            hint = None if elsewhere else nearest(flag, known)
            advice = elsewhere or (hint and f"did you mean {hint}?")
            yield f"unknown flag {flag}" + (f": {advice}" if advice else "")
        if flags:
            return  # an extra argument may be the value of an unknown flag
        for argument in unknown:
            yield f"unexpected argument {argument}"


class Values:
    """The values of a command line.

    Attributes:
        mistakes: The mistakes so far, each with its flag.
    """

    def __init__(self, parser: Parser, typed: dict[str, Any], *, see: str) -> None:
        self._parser = parser
        self._typed = typed
        self._see = see
        self.mistakes: list[str] = []
        self._wrong: set[str] = set()

    def is_wrong(self, dest: str) -> bool:
        """Returns whether the flag has a mistake."""
        return dest in self._wrong

    def wrong(self, dest: str, message: str) -> None:
        """Adds a mistake."""
        self._wrong.add(dest)
        self.mistakes.append(f"{self._parser.name_of(dest)} {message}")

    def check(self) -> None:
        """Raises `CommandLineError` if there are mistakes."""
        if self.mistakes:
            raise CommandLineError(self.mistakes, see=self._see)

    def argument(self, dest: str) -> str:
        """Returns the positional argument; empty if there was none."""
        given = self._typed[dest]
        return str(given[0]) if given else ""

    def arguments(self, dest: str) -> tuple[str, ...]:
        """Returns all positional arguments."""
        return tuple(self._typed[dest] or ())

    def switch(self, dest: str) -> bool:
        """Returns whether a flag without a value was given."""
        return bool(self._typed[dest])

    def name_of(self, dest: str) -> str:
        """Returns the name for messages."""
        return self._parser.name_of(dest)

    def is_given(self, dest: str) -> bool:
        """Returns whether the flag was given, with any value."""
        return self._typed[dest] is not None

    def texts(self, dest: str) -> list[str]:
        """Returns the values of a flag that may be repeated."""
        texts: list[str] = self._typed[dest] or []
        if _MISSING in texts:
            self.wrong(dest, "needs a value")
        return [text for text in texts if text != _MISSING]

    def text(self, dest: str) -> str | None:
        """Returns the value as text, or `None`."""
        text: str | None = self._typed[dest]
        if text == _MISSING:
            self.wrong(dest, "needs a value")
            return None
        return text

    def whole(self, dest: str, default: int, rule: Check | None = None) -> int:
        """Returns a whole number, and checks it by a rule."""
        number = self.whole_or_none(dest, rule)
        return default if number is None else number

    def whole_or_none(self, dest: str, rule: Check | None = None) -> int | None:
        """Returns a whole number, and checks it by a rule; `None` if the flag was not given."""
        text = self.text(dest)
        if text is None:
            return None
        try:
            number = int(text)
        except ValueError:
            self.wrong(dest, f"must be a whole number, not {short(text)}")
            return None
        self._apply(dest, number, rule)
        return number

    def seconds_or_none(self, dest: str) -> float | None:
        """Returns a number of seconds, or `None` if the flag was not given."""
        text = self.text(dest)
        if text is None:
            return None
        number = _number(text)
        if number is None:
            self.wrong(dest, f"must be a number of seconds, not {text!r}")
        return number

    def span(self, dest: str) -> tuple[float, float] | None:
        """Returns the least and most seconds: of `0..3`, or of one number for both."""
        text = self.text(dest)
        if text is None:
            return None
        least_text, dots, most_text = text.partition("..")
        least = _number(least_text)
        most = _number(most_text) if dots else least
        if least is None or most is None or not 0 <= least <= most:
            self.wrong(dest, f"must be seconds, such as 1.5 or 0..3, not {text!r}")
            return None
        return least, most

    def per_second_or_none(self, dest: str) -> float | None:
        """Returns the number per second of a rate such as `500/s` or `5/2s`, or `None` if the flag was not given."""
        text = self.text(dest)
        if text is None:
            return None
        found = _RATE.fullmatch(text.strip())
        unit_s = _RATE_UNITS_S.get(found[3]) if found else None
        seconds = 0.0 if found is None or unit_s is None else unit_s * float(found[2] or 1)
        per_second = 0.0 if found is None or not seconds else float(found[1]) / seconds
        if not per_second or not isfinite(per_second):
            self.wrong(dest, f"must be a rate, such as 500/s, 1000000/m or 5/2s, not {short(text)}")
            return None
        return per_second

    def share(self, dest: str) -> float:
        """Returns a percentage, with or without the sign, as a share; 0 if the flag was not given."""
        text = self.text(dest)
        if text is None:
            return 0.0
        number = _number(text.removesuffix("%"))
        if number is None or not 0 <= number <= 100:  # noqa: PLR2004 - percent
            self.wrong(dest, f"must be a percentage from 0 to 100, not {short(text)}")
            return 0.0
        return number / 100

    def size_or_none(self, dest: str, rule: Check | None = None) -> int | None:
        """Returns a number of bytes, with or without a unit, and checks it; `None` if the flag was not given."""
        text = self.text(dest)
        if text is None:
            return None
        found = _SIZE.fullmatch(text.strip())
        unit = _SIZE_UNITS.get(found[2].lower()) if found else None
        size = nan if found is None or unit is None else float(found[1]) * unit
        if not isfinite(size):
            self.wrong(dest, f"must be a size in bytes, such as 1048576 or 1MiB, not {short(text)}")
            return None
        number = round(size)
        self._apply(dest, number, rule)
        return number

    def _apply(self, dest: str, number: int, rule: Check | None) -> None:
        if rule is not None:
            try:
                rule(number)
            except ValueError as mistake:
                self.wrong(dest, str(mistake))


def _choices(metavar: str, choices: Choices) -> Choices:
    return choices or ("files" if metavar in _FILES else None)


def _is_value(argument: str) -> bool:
    return argument == "-" or not argument.startswith("-")


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


class _StoppedError(Exception):
    """`argparse` found a mistake and stopped."""


class _ArgumentParser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise _StoppedError(message)
