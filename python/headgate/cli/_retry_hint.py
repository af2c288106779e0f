"""The flags of a job that its retry needs again, for the command that a report recommends.

A job stores how its requests are made and limited, but no values of headers, bodies and credentials, and nothing about
connections.
"""

import shlex
from typing import Final

from headgate._url_user import without_user
from headgate.cli._files import HEADER_ENV, REFERENCES
from headgate.cli._option_flags import typed
from headgate.cli._values import Values
from headgate.jobs._option_entry import JobOption
from headgate.jobs._options import RETRY

_GROUPS: Final = ("request", "bodies", "credentials", "network", "tls", "proxies")
"""The groups of the options that decide what is sent, and where to."""

_ALSO: Final = ("http1_1", "http2_prior_knowledge")
_STORED: Final = ("credentials_for", "network", "allow_net", "deny_net", "allow_port")
_LEFT_OUT: Final = "..."
_PROXIES: Final = "proxies"


def needed_flags(values: Values) -> str:
    """Returns the typed flags that a retry needs again; `...` stands for a value that may be secret or long."""
    words = []
    for name, option in typed(RETRY).items():
        if (option.group in _GROUPS or name in _ALSO) and name not in _STORED:
            words += _words(values, name, option)
            if option.given_as == "headers":
                words += _words(values, HEADER_ENV, None)
    return " ".join(words)


def _words(values: Values, name: str, option: JobOption | None) -> list[str]:
    if not values.is_given(name):
        return []
    if option is not None and isinstance(option.default, bool):
        return [values.name_of(name)] if values.switch(name) else []
    return [f"{values.name_of(name)} {_shown(text, option)}" for text in values.all_texts(name)]


def _shown(text: str, option: JobOption | None) -> str:
    """Returns the value of a flag as it is typed, or `...` for what may be secret or long."""
    is_reference = text.startswith(REFERENCES)
    is_open = option is None or not option.secret or (option.given_as == _PROXIES and without_user(text) == text)
    if is_reference or is_open:
        return shlex.quote(text)
    header, colon, _ = text.partition(":")
    if option is not None and option.given_as.startswith("header") and colon:
        return shlex.quote(f"{header}: {_LEFT_OUT}")
    return f"'{_LEFT_OUT}'"
