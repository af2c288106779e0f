"""A notebook: a kernel of Jupyter, in whose cells code runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.run import LONGEST_S


@dataclass
class Cell:
    """What a cell has shown.

    Attributes:
        printed: What it has printed.
        shown: What it ended with, by media type.
        error: The name of the exception that ended it.
        lines: What it displayed, each text in its place; a line that is replaced is one.
    """

    printed: str = ""
    shown: dict[str, str] = field(default_factory=dict)
    error: str = ""
    lines: dict[str, str] = field(default_factory=dict)

    def take(self, message: dict[str, Any]) -> None:
        content = message["content"]
        match message["header"]["msg_type"]:
            case "stream":
                self.printed += content["text"]
            case "execute_result":
                self.shown = content["data"]
            case "error":
                self.error = content["ename"]
            case "display_data" | "update_display_data":
                place = content.get("transient", {}).get("display_id", str(len(self.lines)))
                self.lines[place] = content["data"]["text/plain"]


class Kernel:
    """A kernel, and the one who writes cells."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager = manager
        self._client = client

    def run(self, code: str) -> Cell:
        """Runs a cell to its end."""
        self.start(code)
        return self.end()

    def start(self, code: str) -> None:
        """Runs a cell, and does not wait for it."""
        self._asked = self._client.execute(code)

    def interrupt(self) -> None:
        """What the button does: SIGINT."""
        self._manager.interrupt_kernel()

    def end(self) -> Cell:
        """Waits for the end of the cell that was started."""
        cell = Cell()
        while True:
            message = self._client.get_iopub_msg(timeout=LONGEST_S)
            if message["parent_header"].get("msg_id") != self._asked:
                continue
            if message["header"]["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return cell
            cell.take(message)


@contextmanager
def notebook(place: Path) -> Iterator[Kernel]:
    """Starts a kernel in that directory, and ends it. It listens on sockets there, at no port."""
    from jupyter_client.manager import KernelManager  # noqa: PLC0415 - takes half a second

    manager = KernelManager(transport="ipc", ip=str(place / "k"), connection_file=str(place / "kernel.json"))
    manager.start_kernel(cwd=str(place))
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=LONGEST_S)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
