"""Records in the standard logging tree. `logging` is imported by the program that wants them, and never here."""

import sys
from typing import TYPE_CHECKING, Final

from headgate._url_user import without_user

if TYPE_CHECKING:
    from logging import Logger

    from headgate.client._request import NativeRequest

_NAME: Final = "headgate"


def logger() -> "Logger | None":
    """Returns the logger; `None` if the program does not log."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    found: Logger = logging.getLogger(_NAME)
    if not found.handlers:
        # Without one, warnings are printed where logging was not configured.
        found.addHandler(logging.NullHandler())
    return found


def waits_long(request: "NativeRequest", wait: str) -> None:
    """Logs that a call waits for long; `wait`: what for."""
    found = logger()
    if found is not None:
        found.warning("%s %s waits for %s", request.method, without_user(request.url), wait)
