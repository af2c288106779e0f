"""The logger `headgate` of the standard `logging`.

`logging` is not imported here: a program that has not imported it has no handler that could show a record.
"""

import sys
from typing import TYPE_CHECKING, Final

from headgate import _format
from headgate._url_user import without_user

if TYPE_CHECKING:
    from logging import Logger

    from headgate.client._attempt import Attempt
    from headgate.client._client_options import ClientOptions
    from headgate.client._request import NativeRequest

DEBUG: Final = 10
INFO: Final = 20
WARNING: Final = 30

_logger: "Logger | None" = None


def enabled_logger(level: int) -> "Logger | None":
    """Returns the logger, if it takes records of this level."""
    logger = _logger or _find()
    return logger if logger is not None and logger.isEnabledFor(level) else None


def is_observed(options: "ClientOptions") -> bool:
    """Returns whether requests of a client are logged, or have hooks."""
    logger = _logger or _find()
    return options.hooks is not None or (logger is not None and logger.isEnabledFor(INFO))


def _find() -> "Logger | None":
    global _logger  # noqa: PLW0603 - it is looked up once
    logging = sys.modules.get("logging")
    if logging is None or not hasattr(logging, "NullHandler"):  # it may be about to be imported in another thread
        return None
    logger: Logger = logging.getLogger("headgate")
    logger.addHandler(logging.NullHandler())
    _logger = logger
    return logger


def waits_long(request: "NativeRequest", wait: str) -> None:
    """Logs that a call waits for long; `wait`: what for."""
    if (logger := enabled_logger(WARNING)) is not None:
        method, url = request.method or "GET", shown(request.url)
        logger.warning("%s %s waits for %s", method, url, wait, extra={"method": method, "url": url})


def log_attempt(logger: "Logger", attempt: "Attempt", method: str, url: str) -> None:
    """Logs an attempt that has ended."""
    result = str(attempt.status_code) if attempt.error is None else f"{attempt.error}: {attempt.message}"
    pieces = [f"{result} in {attempt.elapsed_s:.3f} s"]
    if attempt.remote_addr is not None:
        pieces.append(f"over {'a new' if attempt.is_new_connection else 'an open'} connection to {attempt.remote_addr}")
    if attempt.waited_s >= 0.001:  # noqa: PLR2004 - less is no wait
        pieces.append(f"after a wait of {attempt.waited_s:.3f} s")
    if attempt.retry_in_s is not None:
        pieces.append(f"the next attempt follows in {attempt.retry_in_s:.3f} s")
    url = shown(url)
    logger.debug(
        "%s %s: attempt %d: %s",
        method,
        url,
        attempt.number,
        _format.printable("; ".join(pieces)),
        extra={
            "method": method,
            "url": url,
            "attempt": attempt.number,
            "status": attempt.status_code,
            "error_kind": attempt.error,
            "elapsed_s": attempt.elapsed_s,
            "waited_s": attempt.waited_s,
            "retry_in_s": attempt.retry_in_s,
            "remote_addr": attempt.remote_addr,
            "is_new_connection": attempt.is_new_connection,
        },
    )


def log_request(  # noqa: PLR0913 - the fields of a record
    logger: "Logger", method: str, url: str, *, result: str, status: int | None, kind: str | None, **facts: float
) -> None:
    """Logs a request that has ended; `facts` are `elapsed_s` and `attempts`."""
    attempts = facts["attempts"]
    tries = f", {attempts:.0f} attempts" if attempts != 1 and kind is None else ""
    url = shown(url)
    logger.info(
        "%s %s: %s in %.3f s%s",
        method,
        url,
        result,
        facts["elapsed_s"],
        tries,
        extra={"method": method, "url": url, "status": status, "error_kind": kind, **facts},
    )


def shown(url: str) -> str:
    """Returns a URL as it is logged: without a user, and without characters that a terminal would act on."""
    return _format.printable(without_user(url))
