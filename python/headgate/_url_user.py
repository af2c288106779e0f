"""Removes `user:password@` from URLs that are shown (RFC 3986 section 3.2.1), as the engine does, too."""

import re
from typing import Final

# The rules of the URL standard: after these schemes any number of slashes is accepted, a backslash counts as a slash,
# and the last `@` before the path ends the user.
_USER: Final = re.compile(r"^(?>([\0- ]*https?:[/\\]*|.*?://))[^/?#\\]*@", re.IGNORECASE | re.DOTALL)


def without_user(url: str) -> str:
    """Returns the text without a user, also if it is not a valid URL."""
    return _USER.sub(r"\1", url) if "@" in url else url
