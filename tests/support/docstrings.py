"""The public names, and the docstrings that have examples of them."""

import doctest
import inspect
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import headgate


def public() -> Iterator[tuple[str, Any]]:
    """What `headgate` exports."""
    for name in headgate.__all__:
        yield name, getattr(headgate, name)


def typed_in(thing: object) -> list[doctest.Example]:
    """What its docstring has as typed at a prompt."""
    return doctest.DocTestParser().get_examples(inspect.getdoc(thing) or "")


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
