"""The engine names options as flags, which is what most people type; Python's exceptions name arguments."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from headgate._errors import HeadgateError

# Not within a path or a URL, where the same letters may be a user's own.
_FLAG: Final = re.compile(r"(?<![^\s(])(?:-o|--[a-z]+(?:-[a-z]+)*)(?![\w/.-])")
_OTHERWISE: Final = {
    "-o": "output",
    "--header": "headers",
    "--fresh": "fresh=True",
    "--no-resume": "resume=False",
}


def named_as_arguments(message: str) -> str:
    """The message with the name of the argument for each flag."""
    return _FLAG.sub(lambda flag: _OTHERWISE.get(flag[0], flag[0].lstrip("-").replace("-", "_")), message)


@contextmanager
def naming_arguments() -> Iterator[None]:
    """Says of arguments what the engine's errors say of flags."""
    try:
        yield
    except HeadgateError as error:
        raise type(error)(named_as_arguments(str(error)), summary=error.summary) from None
