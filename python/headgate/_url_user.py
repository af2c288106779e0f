"""`user:password@` in the text of a URL, which is never shown (RFC 3986 section 3.2.1); the engine has the same."""

import re
from typing import Final

# As the URL standard has it: after these schemes any number of slashes will do, a backslash is one, and the last `@`
# before the path is the one that counts.
_USER: Final = re.compile(r"^(?>([\0- ]*https?:[/\\]*|.*?://))[^/?#\\]*@", re.IGNORECASE | re.DOTALL)


def without_user(url: str) -> str:
    """The text without what stands before the host and its `@`; it need be no URL that can be fetched."""
    return _USER.sub(r"\1", url) if "@" in url else url
