"""Starts and stops a ZEO server with its objects on a core; `http_crossing_zeo.py` is the program."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness import nginx, processes, servers

_PROGRAM: Final = Path(__file__).parents[1] / "http_crossing_zeo.py"
_HERE: Final = "127.0.0.1"
_READY_S: Final = 30.0


@contextmanager
def zeo(core: int, objects: int) -> Iterator[int]:
    """Runs on one core with its file in a temporary directory; yields its port.

    Raises:
        ServerError: It does not start.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-bench-zeo-") as directory:
        port, log = nginx.free_port(), Path(directory, "log")
        command = [sys.executable, str(_PROGRAM), directory, f"{_HERE}:{port}", str(objects)]
        with log.open("w") as output, processes.pinned(core):
            process = subprocess.Popen(command, stdout=output, stderr=output)
        with servers.terminated_at_end(process):
            servers.wait_for_port(port, process, log, name="ZEO's server", ready_s=_READY_S)
            yield port
