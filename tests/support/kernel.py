"""A Jupyter kernel that runs the cells of a notebook."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.run import LONGEST_S


@dataclass
class Cell:
    """The output of a cell.

    Attributes:
        printed: The text that it printed.
        shown: The value of its last line, by media type.
        error: The name of the exception that ended it.
        lines: The texts that it displayed, by their display IDs; a replaced line counts once.
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
                display = content.get("transient", {}).get("display_id", str(len(self.lines)))
                self.lines[display] = content["data"]["text/plain"]


class Kernel:
    """A kernel and a client that sends cells to it."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager = manager
        self._client = client

    def run(self, code: str) -> Cell:
        """Runs a cell to its end."""
        self.start(code)
        return self.end()

    def start(self, code: str) -> None:
        """Starts a cell without waiting for it."""
        self._request = self._client.execute(code)

    def interrupt(self) -> None:
        """Sends SIGINT, as the button does."""
        self._manager.interrupt_kernel()

    def end(self) -> Cell:
        """Waits for the end of the started cell, and returns its output."""
        cell = Cell()
        while True:
            message = self._client.get_iopub_msg(timeout=LONGEST_S)
            if message["parent_header"].get("msg_id") != self._request:
                continue
            if message["header"]["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return cell
            cell.take(message)


@contextmanager
def notebook(directory: Path) -> Iterator[Kernel]:
    """Starts a kernel in a directory, and ends it; it listens on sockets there and on no port."""
    from jupyter_client.manager import KernelManager  # noqa: PLC0415 - takes half a second

    manager = KernelManager(transport="ipc", ip=str(directory / "k"), connection_file=str(directory / "kernel.json"))
    manager.start_kernel(cwd=str(directory))
    client = manager.blocking_client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=LONGEST_S)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
