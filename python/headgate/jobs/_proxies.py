"""The note on proxies in environment variables, which are used only with `proxy="env"`."""

import os
from collections.abc import Sequence
from typing import Final

from headgate._message import Mention, Message, Spell, spelled

_VARIABLES: Final = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def note(proxies: Sequence[str], spell: Spell) -> str | None:
    """Returns a note without their values, which may be secret, if there are any and no proxy is configured."""
    names = [name for name in _VARIABLES if os.environ.get(name)]
    if proxies or not names:
        return None
    verb, them = ("is", "it") if len(names) == 1 else ("are", "them")
    message: Message = (
        f"{', '.join(names)} {verb} set but ignored: to connect through {them}, use ",
        Mention("proxy", "env"),
    )
    return spelled(message, spell)
