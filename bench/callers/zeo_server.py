"""A ZEO server with its objects: `http_crossing_zeo.py` is the program, which this starts on a core and stops."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness import nginx, processes, servers
from harness.servers import ServerError

_PROGRAM: Final = Path(__file__).parents[1] / "http_crossing_zeo.py"
_HERE: Final = "127.0.0.1"
_READY_S: Final = 30.0
_POLL_S: Final = 0.05
_TAIL: Final = 400


@contextmanager
def zeo(core: int, objects: int) -> Iterator[int]:
    """Runs on one core with its file in a temporary directory; gives the port where it listens.

    Raises:
        ServerError: It does not start.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-bench-zeo-") as directory:
        port, log = nginx.free_port(), Path(directory, "log")
        command = [sys.executable, str(_PROGRAM), directory, f"{_HERE}:{port}", str(objects)]
        with log.open("w") as told, processes.pinned(core):
            process = subprocess.Popen(command, stdout=told, stderr=told)
        with servers.ended_at_last(process):
            _wait_for(port, process, log)
            yield port


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while True:
        if process.poll() is not None:
            raise ServerError(f"ZEO's server has not started: {log.read_text()[-_TAIL:].strip()}")
        with socket.socket() as probe:
            if probe.connect_ex((_HERE, port)) == 0:
                return
        if time.monotonic() > deadline:
            raise ServerError(f"ZEO's server does not listen after {_READY_S:.0f} s")
        time.sleep(_POLL_S)
