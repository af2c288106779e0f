"""Answers in place of the network, for tests of programs that use headgate.

import headgate.testing

with headgate.testing.mock() as server:
    server.get("https://api.example.com/users/1", json={"id": 1})
    assert load_user(1) == {"id": 1}
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.testing._answer import Answer
    from headgate.testing._calls import Call, Calls
    from headgate.testing._mock_request import MockRequest
    from headgate.testing._route import Route
    from headgate.testing._server import MockServer, mock

__all__ = ["Answer", "Call", "Calls", "MockRequest", "MockServer", "Route", "mock"]

# Imported when first used: pytest loads the plugin beside this also for tests that don't use it.
_HOME_OF = {
    "Answer": "_answer",
    "Call": "_calls",
    "Calls": "_calls",
    "MockRequest": "_mock_request",
    "MockServer": "_server",
    "Route": "_route",
    "mock": "_server",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'headgate.testing' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as above

    value: object = getattr(import_module(f"headgate.testing.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
