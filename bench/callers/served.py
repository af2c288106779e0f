"""Runs nginx on one core, which responds to every request with `BODY` at once."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness import nginx
from harness.nginx import Nginx

HERE: Final = "127.0.0.1"
BODY: Final = b"x" * 1_000

_CONFIG: Final = """\
    keepalive_requests 1000000000;
    keepalive_timeout 1h;
    server {{
        listen {here}:{port} backlog=65535;
        location / {{ return 200 "{body}"; }}
        location = /status {{ stub_status; }}
    }}"""


@contextmanager
def served(core: int) -> Iterator[Nginx]:
    """Runs nginx on one core.

    Raises:
        ServerError: It does not start.
    """
    with tempfile.TemporaryDirectory(prefix="headgate-bench-crossing-") as name:
        directory, port = Path(name), nginx.free_port()
        http = _CONFIG.format(here=HERE, port=port, body=BODY.decode())
        with nginx.configured(nginx.framed(http, directory), directory, port, core) as pid:
            yield Nginx(f"http://{HERE}:{port}", "", port, pid)
