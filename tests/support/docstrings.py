"""The public names, and the examples in their docstrings."""

import ast
import asyncio
import doctest
import inspect
import traceback
from collections.abc import Iterable, Iterator
from contextlib import redirect_stdout
from functools import cached_property
from io import StringIO
from types import ModuleType
from typing import Any, Final

import headgate
import headgate.ray
import headgate.spark
import headgate.testing
from support.console import ADDRESS

FLAGS: Final = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
MODULES: Final[dict[str, ModuleType]] = {
    "": headgate,
    "testing.": headgate.testing,
    "ray.": headgate.ray,
    "spark.": headgate.spark,
}
"""The modules that users import, by the prefix of their names here."""


def public() -> Iterator[tuple[str, Any]]:
    """Yields the exported names; those of other modules than `headgate` begin with the name of the module."""
    for beginning, module in MODULES.items():
        for name in module.__all__:
            # It is a value of pyspark, which may not be installed.
            if beginning + name != "spark.SCHEMA":
                yield beginning + name, getattr(module, name)


def typed_in(thing: object) -> list[doctest.Example]:
    """Returns the examples in a docstring."""
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


def typed() -> dict[str, list[doctest.Example]]:
    """Returns the examples of each public name and of each member."""
    return {name: typed_in(thing) for name, thing in [*public(), *members()]}


def check(examples: Iterable[doctest.Example], variables: dict[str, Any], server: str, runner: asyncio.Runner) -> None:
    """Runs the examples, and fails unless each prints what it shows."""
    address, shown_address = server.partition("//")[2], ADDRESS.partition("//")[2]
    for example in examples:
        source = example.source.replace(shown_address, address)
        printed = _printed_by(source, variables, runner).replace(address, shown_address)
        shown = example.exc_msg or example.want
        assert doctest.OutputChecker().check_output(shown, printed, FLAGS), f"{source}{shown}{printed}"


def _printed_by(source: str, variables: dict[str, Any], runner: asyncio.Runner) -> str:
    """Returns what the source prints at a prompt that allows `await`; of an exception, the last line."""
    code = compile(source, "<example>", "single", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = StringIO()
    with redirect_stdout(printed):
        try:
            ended = eval(code, variables)  # noqa: S307 - it is our own
            if inspect.iscoroutine(ended):
                runner.run(ended)
        except Exception as error:  # noqa: BLE001 - it may be what is shown
            return "".join(traceback.format_exception_only(error))
    return printed.getvalue()


def members() -> Iterator[tuple[str, Any]]:
    """The functions and properties of the classes among them that are ours, as `Class.name`, each once."""
    for class_name, thing in public():
        if not isinstance(thing, type):
            continue
        found = dict[str, Any]()
        others = {other for _, other in public() if other is not thing}
        for base in reversed(thing.__mro__):
            if base.__module__.startswith("headgate") and base not in others:
                found |= vars(base)
        for name, member in found.items():
            is_one = isinstance(member, classmethod | property | cached_property) or inspect.isfunction(member)
            if is_one and not name.startswith("_"):
                yield f"{class_name}.{name}", getattr(thing, name) if isinstance(member, classmethod) else member
