"""Applications that use clients, each as a module in a directory of its own, and the servers that run them."""

import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from support.run import LONGEST_S

_LISTENS: Final = re.compile(r"(?:running on|Listening at:) (http://[\d.]+:\d+)")


@contextmanager
def application(directory: Path, code: str, *command: str) -> Iterator[str]:
    """Runs a server with this application, and yields its URL. It must end at SIGTERM, and say nothing of errors."""
    (directory / "application.py").write_text(code)
    lines: list[str] = []
    with subprocess.Popen(
        [sys.executable, "-X", "dev", "-m", *command],
        cwd=directory,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stderr is not None
            url = None
            while url is None:
                line = process.stderr.readline()
                assert line, "".join(lines)
                lines.append(line)
                found = _LISTENS.search(line)
                url = found and found[1]
            reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()))
            reader.start()
            yield url
            process.send_signal(signal.SIGTERM)
            code_at_end = process.wait(LONGEST_S)
            reader.join(LONGEST_S)
        finally:
            process.kill()
    # Workers of gunicorn leave the socket of the server open. Python warns of forks of a process with threads.
    port = url.rpartition(":")[2]
    others = (
        "this headgate is a debug build",
        "use of fork",
        "Enable tracemalloc",
        rf"unclosed <socket.*laddr=.*{port}",
    )
    own = re.compile("|".join(others))
    said = "".join(line for line in lines if not own.search(line))
    assert code_at_end in {0, -signal.SIGTERM}, said
    assert not re.search(r"Traceback|Exception ignored|Warning|panicked|was never", said), said
