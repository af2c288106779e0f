"""`hooks` of clients: functions that are called with each request, its attempts, and its response or error."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, NamedTuple, TypedDict

import headgate  # noqa: TC001 - the annotations of `ClientHooks` are read at run time
from headgate._checks import kind_of
from headgate._nearest import nearest
from headgate.jobs._option_entry import JobOption


class ClientHooks(TypedDict, total=False):
    """The functions to call; a list of them is called in its order. It is the type of the option `hooks`.

    >>> hooks: headgate.ClientHooks = {"response": lambda response: print(response.status_code)}
    >>> headgate.Client(base_url="http://127.0.0.1:8080", hooks=hooks).get("/hello").text
    200
    'Hello, World!'
    """

    request: "Callable[[headgate.PreparedRequest], object] | Iterable[Callable[[headgate.PreparedRequest], object]]"
    attempt: "Callable[[headgate.Attempt], object] | Iterable[Callable[[headgate.Attempt], object]]"
    response: "Callable[[headgate.Response], object] | Iterable[Callable[[headgate.Response], object]]"
    error: "Callable[[headgate.RequestError], object] | Iterable[Callable[[headgate.RequestError], object]]"


ClientHooks.__module__ = "headgate"


class Hooks(NamedTuple):
    """The functions of each kind."""

    request: tuple[Callable[[Any], object], ...] = ()
    attempt: tuple[Callable[[Any], object], ...] = ()
    response: tuple[Callable[[Any], object], ...] = ()
    error: tuple[Callable[[Any], object], ...] = ()


NO_HOOKS: Final = Hooks()


class ClientHooksOption(TypedDict, total=False):
    """The hooks of a client."""

    hooks: Annotated[
        ClientHooks | None,
        JobOption(
            help=(
                'Functions to call, one or a list for each of these names: `"request"` with the'
                ' `headgate.PreparedRequest` before it is sent, which they may change; `"attempt"` with each'
                ' `headgate.Attempt` that has ended; then `"response"` with the response, or `"error"` with the error.'
                " Those of an `AsyncClient` may be asynchronous."
            ),
            default=None,
            default_means="none",
            secret=True,
        ),
    ]


def hooks_of(given: object, *, may_be_async: bool) -> Hooks | None:
    """Returns the functions of each kind, or `None` if there are none.

    Raises:
        TypeError: There is no such kind, or something is not a function.
    """
    if given is None:
        return None
    if not isinstance(given, Mapping):
        raise TypeError(f"must be a mapping such as {{'response': function}}, not {kind_of(given)}")
    kinds: dict[str, tuple[Callable[[Any], object], ...]] = {}
    for kind, functions in given.items():
        if kind not in Hooks._fields:
            meant = nearest(str(kind), Hooks._fields)
            hint = f"; did you mean {meant!r}?" if meant else ""
            raise TypeError(f"has no kind {kind!r}: there are {', '.join(map(repr, Hooks._fields))}{hint}")
        kinds[kind] = tuple(_functions(kind, functions))
        if not may_be_async and any(map(_is_async, kinds[kind])):
            raise TypeError(f"of a Client can't be asynchronous, as one of {kind!r} is: use an AsyncClient")
    hooks = Hooks(**kinds)
    return hooks if any(hooks) else None


def _functions(kind: str, functions: object) -> Iterable[Callable[[Any], object]]:
    if callable(functions):
        return (functions,)
    if not isinstance(functions, Iterable) or isinstance(functions, str):
        raise TypeError(f"of {kind!r} must be a function or a list of functions, not {kind_of(functions)}")
    listed = list(functions)
    for function in listed:
        if not callable(function):
            raise TypeError(f"of {kind!r} must be functions, not {kind_of(function)}")
    return listed


def _is_async(function: object) -> bool:
    from inspect import iscoroutinefunction  # noqa: PLC0415 - its import is slow, and most clients have no hooks

    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - not whether it can be called
