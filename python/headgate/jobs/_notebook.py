"""Detects the kernel of a notebook, such as Jupyter's, and shows text in its cells."""

import asyncio
import sys
from collections.abc import Awaitable
from importlib import import_module
from typing import Any, Final, TypeVar

T = TypeVar("T")

_CHECK_S: Final = 0.1
"""How soon the kernel of a notebook notices an interrupt."""


def in_notebook() -> bool:
    """Returns whether this process runs notebook cells. Then their thread runs a loop, which may be blocked."""
    # This imports nothing, because a kernel has loaded IPython already.
    ipython = sys.modules.get("IPython")
    get_ipython = getattr(ipython, "get_ipython", None)
    return get_ipython is not None and getattr(get_ipython(), "kernel", None) is not None


async def await_interruptibly(awaitable: Awaitable[T]) -> T:
    """Awaits an awaitable. In a notebook it wakes the loop regularly, so that the kernel notices an interrupt."""
    if not in_notebook():
        return await awaitable
    future = asyncio.ensure_future(awaitable)
    try:
        while not future.done():
            await asyncio.wait((future,), timeout=_CHECK_S)
    finally:
        future.cancel()
    return future.result()


def ends_iteration(error: BaseException) -> bool:
    """Returns whether the error ends an iteration in a loop. A cancelled wait, as by a timeout, doesn't end it.

    In a notebook it does, because that is how a cell is interrupted, and the shown error keeps the iterator alive.
    """
    if isinstance(error, asyncio.CancelledError):
        return in_notebook()
    return not isinstance(error, GeneratorExit)


class Line:
    """A line below a cell, whose text is replaced in place."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, text: str) -> None:
        """Shows the text instead of what was there."""
        content = {"text/plain": text}
        if self._handle is None:
            self._handle = import_module("IPython.display").display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)


def refuse_to_block_a_loop(what: str, instead: str) -> None:
    """Raises an error if a call would block an event loop, except in the cell of a notebook.

    Raises:
        RuntimeError: An event loop runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if not in_notebook():
        raise RuntimeError(f"{what} would block the event loop that runs in this thread: {instead}")
