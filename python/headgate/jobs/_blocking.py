"""What blocks does not do so where an event loop would stand still meanwhile."""

import asyncio

from headgate.jobs._notebook import in_notebook


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
