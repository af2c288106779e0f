"""The second step of reading a command line: the values of flags, and all mistakes."""

import re
from collections.abc import Mapping, Sequence
from math import inf, isfinite, nan
from reprlib import repr as short
from typing import Any, Final

from headgate._checks import Check
from headgate._rate_text import UNIT_S

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNIT = re.compile(r"[a-z]*\s*\Z")
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*(\d+(?:\.\d+)?)?\s*([a-z]+)")
_SIZE_UNITS: Final[dict[str, int]] = {
    "": 1,
    "b": 1,
    **{unit: 1024**power for power, letter in enumerate("kmgt", 1) for unit in (letter, f"{letter}ib")},
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", 1)},
}


class CommandLineError(Exception):
    """The mistakes of a command line, each on a separate line."""

    def __init__(self, mistakes: Sequence[str], *, see: str = "headgate --help") -> None:
        super().__init__("\n".join([*(f"error: {mistake}" for mistake in mistakes), f"see `{see}`"]))


class Values:
    """The values of a command line.

    Attributes:
        mistakes: The mistakes so far, each with its flag.
    """

    def __init__(self, names: Mapping[str, str], typed: dict[str, Any], *, see: str) -> None:
        """Takes the names of flags for messages, and the typed values, by `dest`; `see` is the command for help."""
        self._names = names
        self._typed = typed
        self._see = see
        self.mistakes: list[str] = []
        self._wrong: set[str] = set()
        self._places: dict[str, str] = {}

    def is_wrong(self, dest: str) -> bool:
        """Returns whether the flag has a mistake."""
        return dest in self._wrong

    def wrong(self, dest: str, message: str) -> None:
        """Adds a mistake."""
        self._wrong.add(dest)
        self.mistakes.append(f"{self._places.get(dest, self._names[dest])} {message}")

    def add(self, dest: str, value: object, place: str) -> None:
        """Adds a value that was not typed; `place` is where it is, for messages."""
        self._typed[dest] = value
        self._places[dest] = place

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
        return self._names[dest]

    def is_given(self, dest: str) -> bool:
        """Returns whether the flag was given, with any value."""
        return self._typed[dest] is not None

    def texts(self, dest: str) -> list[str]:
        """Returns the values of a flag that may be repeated."""
        return list(self._typed[dest] or ())

    def all_texts(self, dest: str) -> list[str]:
        """Returns the values of a flag, whether it may be repeated or not."""
        given = self._typed[dest]
        return [given] if isinstance(given, str) else list(given or ())

    def text(self, dest: str) -> str | None:
        """Returns the value as text, or `None`."""
        text: str | None = self._typed[dest]
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
        """Returns the seconds of a duration such as `30s` or `500ms`, or `None` if the flag was not given."""
        text = self.text(dest)
        if text is None:
            return None
        try:
            return _seconds(text)
        except ValueError as mistake:
            self.wrong(dest, str(mistake))
            return None

    def span(self, dest: str) -> tuple[float, float] | None:
        """Returns the shortest and longest time in seconds: of a range such as `0..3s`, or of one duration for both.

        The unit of the longest time is also that of a shortest one without a unit: `10..60ms` is `10ms..60ms`.
        """
        text = self.text(dest)
        if text is None:
            return None
        shortest, dots, longest = text.partition("..")
        if dots and _number(shortest) is not None:
            shortest += _UNIT.findall(longest)[0]
        try:
            span = _seconds(shortest), _seconds(longest if dots else shortest)
        except ValueError:
            span = (nan, nan)
        if not 0 <= span[0] <= span[1] < inf:
            self.wrong(dest, f"must be a duration such as 1.5s, or a range such as 0..3s, not {short(text)}")
            return None
        return span

    def per_second_or_none(self, dest: str) -> float | None:
        """Returns the number per second of a rate such as `500/s` or `5/2s`, or `None` if the flag was not given."""
        text = self.text(dest)
        if text is None:
            return None
        found = _RATE.fullmatch(text.strip())
        unit_s = UNIT_S.get(found[3]) if found else None
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


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _seconds(text: str) -> float:
    from headgate._native import parse_seconds  # noqa: PLC0415 - not for the help

    return parse_seconds(text)
