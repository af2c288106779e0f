"""Rates as other libraries and users write them, and the code that makes the same rate here."""

import re
from typing import Final

from headgate._checks import figure

_LARGE: Final = 1e15
UNIT_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}
"""The units of time in rates, in seconds."""
_NAMED: Final = {"sec": "s", "second": "s", "minute": "m", "hr": "h", "hour": "h", "day": "d"}
_WRITTEN: Final = re.compile(r"(\d+(?:\.\d+)?)(?:\s*(?:/|per)\s*(\d+(?:\.\d+)?)?\s*([a-z]+))?", re.IGNORECASE)


def _parsed(value: object) -> tuple[str, float]:
    """Returns the amount of a rate and its seconds: those of 100/s if it is none."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < _LARGE:
        return figure(value), 1.0
    written = _WRITTEN.fullmatch(value.strip()) if isinstance(value, str) else None
    if written is not None:
        unit = (written[3] or "s").lower()
        unit = _NAMED.get(unit.removesuffix("s"), unit)
        if unit in UNIT_S and float(written[2] or 1) > 0:
            return written[1], float(written[2] or 1) * UNIT_S[unit]
    return "100", 1.0


def rate_call(value: object) -> str:
    """Returns the code that makes the rate that a value probably means, such as `headgate.Rate(500, per=60)`."""
    amount, per_s = _parsed(value)
    return f"headgate.Rate({amount}{'' if per_s == 1 else f', per={per_s:g}'})"


def rate_text(value: object) -> str:
    """Returns the text of so many in a second, such as `'100/s'`, in quotes."""
    return repr(f"{_parsed(value)[0]}/s")
