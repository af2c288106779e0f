"""A mock that responds in place of the network, for tests of programs that use headgate.

import headgate.testing

with headgate.testing.mock() as server:
    server.get("https://api.example.com/users/1", json={"id": 1})
    assert load_user(1) == {"id": 1}
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headgate.testing._calls import Call as Call, Calls as Calls, MockRequest as MockRequest
    from headgate.testing._form import MockFile as MockFile
    from headgate.testing._response import MockResponse as MockResponse
    from headgate.testing._route import Route as Route
    from headgate.testing._server import MockServer as MockServer, mock as mock

# Imported on first use, because pytest loads the plugin in this package also for tests that don't use it.
_NAMES_IN = {
    "_response": "MockResponse",
    "_calls": "Call Calls MockRequest",
    "_form": "MockFile",
    "_route": "Route",
    "_server": "MockServer mock",
}
_MODULE_OF = {name: module for module, names in _NAMES_IN.items() for name in names.split()}

if not TYPE_CHECKING:  # type checkers read the imports above
    __all__ = list(_MODULE_OF)


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'headgate.testing' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - as above

    value: object = getattr(import_module(f"headgate.testing.{_MODULE_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(_MODULE_OF)
