"""Whether this process is the kernel of a notebook, as that of Jupyter is, and what is shown in its cells."""

import asyncio
import sys
from collections.abc import Awaitable
from importlib import import_module
from typing import Any, Final, TypeVar

T = TypeVar("T")

_TURN_S: Final = 0.1
"""How soon the kernel of a notebook sees that it is interrupted."""


def in_notebook() -> bool:
    """Whether cells of a notebook run here. Then an event loop runs in their thread, and waits for each anyway."""
    # Nothing is imported: in a kernel, IPython is loaded already.
    ipython = sys.modules.get("IPython")
    get_ipython = getattr(ipython, "get_ipython", None)
    return get_ipython is not None and getattr(get_ipython(), "kernel", None) is not None


async def in_turns(awaitable: Awaitable[T]) -> T:
    """Awaits it. In a notebook the loop takes its turns meanwhile: in these its kernel sees that it is interrupted."""
    if not in_notebook():
        return await awaitable
    future = asyncio.ensure_future(awaitable)
    try:
        while not future.done():
            await asyncio.wait((future,), timeout=_TURN_S)
    finally:
        future.cancel()
    return future.result()


def ends_iteration(error: BaseException) -> bool:
    """Whether an iteration in a loop ends with this. Cancelling a wait, as a timeout does, doesn't end it.

    In a notebook a cell is interrupted that way, and what is shown of the error keeps the iterator.
    """
    if isinstance(error, asyncio.CancelledError):
        return in_notebook()
    return not isinstance(error, GeneratorExit)


class Line:
    """One line below a cell, whose text is replaced in place."""

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
    """To be called before anything is done; the cell of a notebook may block, although a loop runs there.

    Raises:
        RuntimeError: An event loop runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    if not in_notebook():
        raise RuntimeError(f"{what} would block the event loop that runs in this thread: {instead}")
