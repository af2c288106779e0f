"""The methods of both clients, under the names that they have everywhere."""

from typing import Any, Final

from headgate._checks import kind_of
from headgate.client._request import NAMES, Request, refuse

OF_CALL: Final = tuple(name for name in NAMES if name not in {"url", "method", "tag"})


def request_of(method: str, url: str, options: dict[str, Any], of: str) -> Request:
    """The request that a call asks for.

    Raises:
        TypeError: It has no such argument; named is the one that is meant.
    """
    for name in options:
        if name not in OF_CALL:
            refuse(f"{of}() has no {name!r}", name, OF_CALL)
    return Request(url, method=method, **options)


def refuse_other(request: object) -> None:
    """Refuses what `send` does not take.

    Raises:
        TypeError: It is no request.
    """
    if not isinstance(request, Request):
        raise TypeError(f"send() takes a headgate.Request, not {kind_of(request)}: for a URL there is get()")
