"""Spells options in messages as flags of the command line."""

import shlex
from typing import Final

from headgate._message import Mention
from headgate.jobs._option_entry import JobOption
from headgate.jobs._options import PLAN, RETRY

_OUTPUT: Final = "-o"


def as_flag(mention: Mention) -> str:
    """Returns the option as it is typed: `--timeout`, `--if-exists overwrite`, `--format ndjson`."""
    flag = _flag_of(mention.option)
    return flag if isinstance(mention.value, bool | None) else f"{flag} {shlex.quote(str(mention.value))}"


def _flag_of(name: str) -> str:
    entry = PLAN.entries.get(name) or RETRY.entries.get(name)
    if entry is not None and isinstance(entry.option, JobOption):
        return entry.option.flags_of(name)[-1]
    return _OUTPUT if name == "output" else f"--{name.replace('_', '-')}"
