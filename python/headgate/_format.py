"""Formats figures and texts for users."""

from datetime import UTC, datetime
from typing import Final

_BYTE_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB")
_KIBI: Final = 1024


def count(number: float) -> str:
    """Returns `1234567` as `1,234,567`; small rates keep a digit: `0.6`."""
    if 0 < number < 10 and number != int(number):
        return f"{number:.1f}"
    return f"{number:,}" if isinstance(number, int) else f"{number:,.0f}"


def plural(number: int, one: str) -> str:
    """Returns `1 row`, `2 rows`."""
    return f"{count(number)} {one}" if number == 1 else f"{count(number)} {one}s"


def part(number: int, whole: int, one: str) -> str:
    """Returns `1 of 1 row`, `2 of 1,000 rows`."""
    return f"{count(number)} of {plural(whole, one)}"


def seconds(number: float) -> str:
    """Returns any number of seconds in seconds: `1,234.5 s`."""
    return f"{number:,.1f} s"


def size(number: float) -> str:
    """Returns a size: `512 B`, `1.2 MiB`."""
    if number < _KIBI:
        return f"{number:.0f} B"
    unit = ""
    for unit in _BYTE_UNITS:
        number /= _KIBI
        if number < 999.95 or unit == _BYTE_UNITS[-1]:
            break
    return f"{number:,.1f} {unit}" if number < 99.95 else f"{number:,.0f} {unit}"


def duration(seconds: float) -> str:
    """Returns a duration in its two largest units: `4.2 s`, `3 min 05 s`, `2 d 04 h`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, whole_seconds = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {whole_seconds:02} s"
    hours, minutes = divmod(minutes, 60)
    if hours < 24:
        return f"{hours} h {minutes:02} min"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours:02} h"


def moment(when: datetime) -> str:
    """Returns `2026-11-20 08:15:03 UTC`."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def rfc3339(when: datetime) -> str:
    """Returns `2026-11-20T08:15:03Z`, for JSON."""
    return when.isoformat().replace("+00:00", "Z")


def latency(microseconds: int) -> str:
    """Returns `870 µs`, `8.1 ms`, `1.50 s`; `-` if nothing was measured."""
    if microseconds == 0:
        return "-"
    if microseconds < 1000:
        return f"{microseconds} µs"
    milliseconds = microseconds / 1000
    if milliseconds < 9.95:
        return f"{milliseconds:.1f} ms"
    if milliseconds < 999.5:
        return f"{milliseconds:.0f} ms"
    return f"{milliseconds / 1000:,.2f} s"


def share(fraction: float) -> str:
    """Returns `37 %`; it returns `100 %` only for 1."""
    return "100 %" if fraction >= 1 else f"{min(fraction * 100, 99):.0f} %"


def printable(text: str) -> str:
    """Returns the text on one line, with characters that control a terminal escaped: it may be a hostile server's.

    It escapes each character that `str.isprintable` rejects: control characters, including ANSI escapes, line breaks,
    and characters that change the direction of text.
    """
    return "".join(letter if letter.isprintable() else _escape(letter) for letter in text)


def _escape(letter: str) -> str:
    return letter.encode("unicode_escape").decode("ascii")
