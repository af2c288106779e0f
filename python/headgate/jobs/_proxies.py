"""Proxies that the environment names: there are none yet, which is better said than found out."""

import os
from typing import Final

_VARIABLES: Final = ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")


def note() -> str | None:
    """What is to be said of them, if there are any; a value may hold a password, and is not shown."""
    names = [name for name in _VARIABLES if os.environ.get(name)]
    if not names:
        return None
    verb = "is" if len(names) == 1 else "are"
    return f"{', '.join(names)} {verb} set but ignored: headgate can't use proxies yet and connects directly"
